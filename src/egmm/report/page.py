"""The HTML page around the data; all external text is escaped."""

import json
from ast import literal_eval
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from os import PathLike
from pathlib import Path
from string import Template
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from egmm._checks import check_finite_matrix, check_integer, check_same_length
from egmm._files import replacing
from egmm.belief.decisions import REWARD
from egmm.belief.partition import CredalPartition, check_partition
from egmm.mixture import EGMM
from egmm.plotting.style import feature_labels
from egmm.report.clusters import class_data, clusters_html
from egmm.report.content import Shown, content
from egmm.report.words import describe, rule_words
from egmm.selection import Selection

CITATION = (
    "L. Jiao, T. Denœux, Z. Liu, Q. Pan (2022). EGMM: An evidential version of the Gaussian mixture model for "
    "clustering. Applied Soft Computing 129, 109619. https://doi.org/10.1016/j.asoc.2022.109619"
)

MOST_LETTERS = 200
"""Maximum length of a parameter's value in the code that reproduces the model."""

DIFFER = (
    " The best cluster need not be in the heaviest set: it collects a share of the mass of every set that contains it."
)
"""Sets chosen by the other rules always contain the best cluster."""

BIBTEX = """@article{jiao2022egmm,
  author  = {Jiao, Lianmeng and Denœux, Thierry and Liu, Zhun-ga and Pan, Quan},
  title   = {{EGMM}: An evidential version of the {Gaussian} mixture model for clustering},
  journal = {Applied Soft Computing},
  volume  = {129},
  pages   = {109619},
  year    = {2022},
  doi     = {10.1016/j.asoc.2022.109619}
}"""


def write_report(path: str | PathLike[str], model: Any, X: Any, **details: Any) -> Path:
    """Write the report of a fitted model; an existing file is replaced atomically.

    Parameters
    ----------
    path : str or path-like
        File to write, ending in ``.html``.
    model : EGMM
        Fitted model.
    X : array-like of shape (n_samples, n_features)
        The rows it was fitted to.
    **details : any
        As in :func:`render_report`.

    Returns
    -------
    path : Path

    Examples
    --------
    >>> import tempfile
    >>> from egmm import EGMM
    >>> from egmm.datasets import make_diamond
    >>> X, _ = make_diamond()
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_report(Path(folder) / "report.html", EGMM(2, random_state=0).fit(X), X).name
    'report.html'
    """
    target = Path(path)
    page = render_report(model, X, **details)
    with replacing(target) as stream:
        stream.write(page.encode())
    return target


def render_report(
    model: Any,
    X: Any,
    *,
    feature_names: Sequence[str] | None = None,
    title: str = "EGMM report",
    selection: Any = None,
    reproduce: str | None = None,
    scaling: tuple[Any, Any] | None = None,
    n_total: int | None = None,
    row_numbers: Any = None,
    partition: CredalPartition | None = None,
    sentences: Sequence[str] | None = None,
    rule: str = "heaviest",
    reward: float = REWARD,
    row_names: Any = None,
    classes: Any = None,
) -> str:
    """Render a self-contained HTML page of a fitted model, which needs no network.

    Parameters
    ----------
    model : EGMM
        Fitted model.
    X : array-like of shape (n_samples, n_features)
        The rows it was fitted to. The plot draws a sample of many rows, with a note; all numbers are for all rows.
    feature_names : sequence of str, default=None
        Names of the features; None means the model's ``feature_names_in_``, or x1, x2, ...
    title : str, default='EGMM report'
        Heading.
    selection : Selection, default=None
        Candidates that the model was chosen from, drawn as a curve.
    reproduce : str, default=None
        Command or code that reproduces this model; None writes a few lines of Python.
    scaling : tuple of (centre, scale), default=None
        Centre and scale of the features before fitting; the page shows original units.
    n_total : int, default=None
        Number of rows the model was fitted to, if X is a sample of them.
    row_numbers : array-like of int of shape (n_samples,), default=None
        Numbers of the rows of a sample X among all rows, counted from zero; the page counts from one.
    partition : CredalPartition, default=None
        Partition to show; None means that of the model. A consensus of several models may be given, if its clusters are
        those of the model.
    sentences : sequence of str, default=None
        First sentences of the page; None means those of :func:`describe`.
    rule : {'heaviest', 'utility', 'dominance'}, default='heaviest'
        How the set of a row is chosen, see :meth:`egmm.CredalPartition.sets`.
    reward : float, default=0.8
        Utility of a pair that contains the right cluster, for ``rule="utility"``.
    row_names : array-like of shape (n_samples,), default=None
        Names of the rows; None means the index of a data frame, unless it only numbers the rows.
    classes : array-like of shape (n_samples,), default=None
        Known class of each row, compared with the clusters; None or '' for rows without one.

    Returns
    -------
    html : str

    Examples
    --------
    >>> from egmm import EGMM
    >>> from egmm.datasets import make_diamond
    >>> X, _ = make_diamond()
    >>> page = render_report(EGMM(2, random_state=0).fit(X), X, title="<Diamond>")
    >>> "&lt;Diamond&gt;" in page
    True
    """
    if not isinstance(model, EGMM):
        raise TypeError(f"model must be an EGMM, got {type(model).__name__}.")
    check_is_fitted(model)
    rows = check_finite_matrix("X", X, (None, model.n_features_in_))
    if not (selection is None or isinstance(selection, Selection)):
        raise TypeError(f"selection must be a Selection or None, got {type(selection).__name__}.")
    n_total = len(rows) if n_total is None else check_integer("n_total", n_total, len(rows))
    names = feature_names if feature_names is not None else getattr(model, "feature_names_in_", None)
    is_own = partition is None
    partition = model.partition(X) if partition is None else check_partition("partition", partition)
    check_same_length("X", rows, "partition", partition)
    outliers = model.outliers(X)
    shown = _in_units(model, rows, _names(rows.shape[1], names), scaling)
    numbers = np.arange(len(rows)) if row_numbers is None else np.asarray(row_numbers)
    if numbers.shape != (len(rows),):
        raise ValueError(f"row_numbers must have {len(rows)} entries, one per row, got shape {numbers.shape}.")
    data = content(shown, model, partition, outliers, numbers, selection, rule=rule, reward=reward, is_own=is_own)
    data["nTotal"] = n_total
    drawn = data.pop("drawn")
    named = _texts("row_names", _index(partition) if row_names is None else row_names, len(rows))
    known = _texts("classes", classes, len(rows))
    data["names"] = None if named is None else named[drawn].tolist()
    data |= {"classes": None} if known is None else class_data(known, partition.labels(), drawn)
    if sentences is None:
        sentences = describe(model, partition, outliers=outliers, selection=selection, rule=rule, reward=reward)
    return Template(_resource("page.html")).substitute(
        title=escape(title),
        words="".join(f"<p>{escape(sentence)}</p>" for sentence in sentences),
        clusters=clusters_html(partition, shown.X, shown.names, known, rule, reward),
        rule=rule_words(rule, reward),
        differ=DIFFER if rule == "heaviest" else "",
        citation=escape(CITATION),
        bibtex=escape(BIBTEX),
        reproduce=escape(_code(model) if reproduce is None else reproduce),
        style=_resource("page.css"),
        script=_resource("page.js"),
        # Inside a script element, only "<" could end it or open a comment.
        data=json.dumps(data, ensure_ascii=True, allow_nan=False).replace("<", "\\u003c"),
    )


def _index(partition: CredalPartition) -> Any:
    """Names of the rows of a data frame; None if they are only numbered."""
    index = partition.index
    is_count = index is not None and np.array_equal(np.asarray(index), np.arange(len(partition)))
    return None if is_count else index


def _texts(name: str, values: Any, n_rows: int) -> Any:
    """One text per row, empty if missing; None without values."""
    if values is None:
        return None
    texts = np.array(["" if value is None or value != value else str(value) for value in values], dtype=object)  # noqa: PLR0124
    if len(texts) != n_rows:
        raise ValueError(f"{name} must have {n_rows} entries, one per row, got {len(texts)}.")
    return texts


def _names(n_features: int, names: Sequence[str] | None) -> list[str]:
    given = feature_labels(n_features, None) if names is None else [str(name) for name in names]
    if len(given) != n_features:
        raise ValueError(f"feature_names must have {n_features} entries, got {len(given)}.")
    return given


def _in_units(model: Any, rows: Any, names: list[str], scaling: tuple[Any, Any] | None) -> Shown:
    covariances = np.asarray(model.covariances_)
    covariances = covariances[None] if covariances.ndim == 2 else covariances
    if scaling is None:
        return Shown(rows, model.means_, covariances, names)
    centre, scale = check_finite_matrix("scaling (centre, scale)", scaling, (2, len(names)))
    return Shown(
        rows * scale + centre, model.means_ * scale + centre, covariances * np.multiply.outer(scale, scale), names
    )


def _code(model: Any) -> str:
    """A few lines of Python; parameters too long for code, such as arrays, are left as names to fill in."""
    defaults = type(model)().get_params(deep=False)
    given = {name: value for name, value in model.get_params(deep=False).items() if name != "verbose"}
    texts = {name: repr(value.item() if isinstance(value, np.generic) else value) for name, value in given.items()}
    changed = {name: text for name, text in texts.items() if text != repr(defaults[name])}
    left = [name for name, text in changed.items() if not _is_short_literal(text)]
    arguments = ", ".join(f"{name}={name if name in left else text}" for name, text in changed.items())
    note = f"# {' and '.join(left)}: as given when this model was fitted\n" if left else ""
    return f"from egmm import EGMM\n\n{note}model = EGMM({arguments}).fit(X)\npartition = model.partition(X)"


def _is_short_literal(text: str) -> bool:
    try:
        literal_eval(text)
    except (ValueError, SyntaxError):
        return False
    return len(text) <= MOST_LETTERS


def _resource(name: str) -> str:
    return files("egmm.report").joinpath(name).read_text(encoding="utf-8")
