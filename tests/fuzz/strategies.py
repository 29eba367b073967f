"""Nasty things: rows, files, models and options as unlucky or malicious users give them."""

import json
from typing import Any

import numpy as np
from hypothesis import strategies as st

from egmm.belief.focal import FAMILIES
from egmm.em.covariance import MODELS

NASTY = [0.0, -0.0, 1.0, -1.0, 1e-300, 5e-324, 1e-160, 1e-150, 1e149, 1e150, 1e300, np.inf, -np.inf, np.nan, 2.0**53]
"""Values where arithmetic breaks."""

NAMES = [
    "a",
    "",
    " ",
    "a,b",
    '"',
    "\x1b[31m",
    "x" * 300,
    "é幅𝛼",
    "0",
    "nan",
    "Unnamed: 0",
    "<b>",
    "$x$",
    "\u202e",
    "a\nb",
]
"""Names of columns."""


KINDS = ["plain", "equal", "few", "collinear", "constant", "integers", "units", "far", "entry"]
"""What is wrong with rows."""

CELLS = ["", "nan", "inf", "NA", "1,5", "1e400", "1_0", "١", "true", "x", '"', "0x1", "18446744073709551615"]
"""Entries of files."""

OPTIONS = ["--clusters", "-c", "--covariance", "--columns", "--label", "--seed", "--starts", "--table", "--out"]
VALUES = ["2", "1:3", "2,2", "0", "99", "EEE", "EEE,VVV", "auto", "a", "a,b", ",", "csv", "made", "-1", "1e9"]
SWITCHES = ["--standardize", "--json", "--quiet", "--no-plots", "--force", "--stream", "--no-header", "--speed"]


@st.composite
def rows(draw: Any, max_rows: int = 30, max_features: int = 4) -> np.ndarray:
    """Few rows, often equal, collinear, far away, of differing units, or with an entry that cannot be used."""
    shape = draw(st.integers(1, max_rows)), draw(st.integers(1, max_features))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    X = rng.normal(size=shape) + draw(st.sampled_from([0, 3, 30])) * rng.integers(0, 3, size=(shape[0], 1))
    match draw(st.sampled_from(KINDS)):
        case "equal":
            X[:] = X[0]
        case "few":
            X = X[rng.integers(0, min(3, len(X)), len(X))]
        case "collinear":
            X = X[:, :1] * rng.normal(size=shape[1])
        case "constant":
            X[:, 0] = draw(st.sampled_from([0.0, 1.0, 1e8]))
        case "integers":
            X = X.round()
        case "units":
            X = X * 10.0 ** rng.integers(-140, 140, shape[1])
        case "far":
            X = X + draw(st.sampled_from([1e6, 1e12, -1e100]))
        case "entry":
            X[rng.integers(shape[0]), rng.integers(shape[1])] = draw(st.sampled_from(NASTY))
    return X


@st.composite
def options(draw: Any) -> dict[str, Any]:
    """Parameters of EGMM, most of them sound."""
    number = st.sampled_from([0, 1e-9, 0.01, 1.0, 1e100, *NASTY, 10**400, None, "much", True])
    given = {"n_clusters": draw(st.sampled_from([1, 2, 2, 3, 3, 5, 0, -1, 64, 10**400, 2.0, None]))}
    choices: dict[str, Any] = {
        "covariance": st.sampled_from([*MODELS, "tied", "V", "XXX", 3]),
        "focal_sets": st.sampled_from([*FAMILIES, "some", [[0], [1]], [[0, 1]], [[]], [[7]], 4]),
        "init": st.sampled_from(["kmeans", "random", "mixture", "best", [[0.0]], [0, 1], None]),
        "reg_covar": st.one_of(st.just("auto"), number),
        "certainty": number,
        "tol": number,
        "max_iter": st.sampled_from([1, 5, 50, 0, 1.5, None]),
        "n_init": st.sampled_from([1, 2, 0, "two"]),
        "prior": st.sampled_from([None, "default", {}, {"kappa": 1.0}, {"scale": -1}, {"unknown": 1}, 3]),
        "accelerate": st.sampled_from([True, False, 1, "yes"]),
        "engine": st.sampled_from(["auto", "numpy", "gpu"]),
        "n_jobs": st.sampled_from([None, 1, 2, -1, 0, 1.5]),
        "random_state": st.sampled_from([0, 1, None, -1, 2**40, "seed"]),
    }
    for name in draw(st.sets(st.sampled_from(sorted(choices)), max_size=3)):
        given[name] = draw(choices[name])
    return given


values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(10**20), 10**20), st.sampled_from(NASTY), st.sampled_from(NAMES)),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.sampled_from(NAMES), inner, max_size=3)),
    max_leaves=6,
)
"""Anything that JSON holds, and numbers that it should not."""


@st.composite
def damaged_models(draw: Any, whole: str) -> str:
    """The text of a model file with an entry replaced, removed or added, or the text cut or garbled."""
    kind = draw(st.sampled_from(["replace", "remove", "number", "add", "cut", "garble", "anything"]))
    if kind == "anything":
        return json.dumps(draw(values))
    if kind == "cut":
        return whole[: draw(st.integers(0, len(whole) - 1))]
    if kind == "garble":
        at = draw(st.integers(0, len(whole) - 1))
        return whole[:at] + draw(st.sampled_from(list('{}[]",:0-e9\x00é'))) + whole[at + 1 :]
    document = json.loads(whole)
    place, key = _somewhere(draw, document)
    if kind == "remove":
        del place[key]
    elif kind == "add" and isinstance(place, dict):
        place[draw(st.sampled_from(NAMES))] = draw(values)
    elif kind == "number":
        place[key] = draw(st.one_of(st.sampled_from(NASTY), st.just(10**400), st.floats(-10, 10)))
    else:
        place[key] = draw(values)
    return json.dumps(document)


def _somewhere(draw: Any, document: Any) -> tuple[Any, Any]:
    """A place in a document, and a key in it."""
    place, key = document, draw(st.sampled_from(sorted(document)))
    while isinstance(place[key], list | dict) and place[key] and draw(st.booleans()):
        place = place[key]
        key = draw(st.sampled_from(sorted(place) if isinstance(place, dict) else list(range(len(place)))))
    return place, key


@st.composite
def files(draw: Any) -> bytes:
    """A CSV file, more or less."""
    if draw(st.integers(0, 9)) == 0:
        return draw(st.binary(max_size=200))
    delimiter = draw(st.sampled_from([",", ";", "\t", " "]))
    width = draw(st.integers(1, 4))
    cells = st.one_of(
        st.floats(-1e3, 1e3).map(repr),
        st.integers(-5, 5).map(str),
        st.sampled_from(CELLS),
    )
    lines = [draw(st.lists(st.sampled_from(NAMES), min_size=width, max_size=width))]
    for _ in range(draw(st.integers(0, 12))):
        ragged = draw(st.sampled_from([0, 0, 0, 0, 0, 0, 0, 1, -1]))
        lines.append(draw(st.lists(cells, min_size=max(width + ragged, 0), max_size=max(width + ragged, 0))))
    text = draw(st.sampled_from(["\n", "\r\n"])).join(delimiter.join(line) for line in lines) + "\n"
    return text.encode(draw(st.sampled_from(["utf-8", "utf-8-sig", "utf-16"])))


arguments = st.lists(
    st.one_of(
        st.sampled_from(OPTIONS),
        st.sampled_from(VALUES),
        st.sampled_from(SWITCHES),
        st.sampled_from(["\x1b[0m", "x" * 300, "/", ".", "..", "made/../made", "é"]),
    ),
    max_size=5,
)
"""What may be typed behind ``egmm fit FILE``."""
