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


KINDS = ["plain", "equal", "few", "collinear", "constant", "integers", "units", "far", "entry", "missing", "outliers"]
"""What is wrong with rows."""

CELLS = ["", "nan", "inf", "NA", "1,5", "1e400", "1_0", "١", "true", "x", '"', "0x1", "18446744073709551615"]
"""Entries of files."""

OPTIONS = ["--clusters", "-c", "--covariance", "--columns", "--label", "--seed", "--starts", "--table", "--out"]
OPTIONS += [
    "--tails",
    "--missing",
    "--id",
    "--exclude",
    "--reliability",
    "--rule",
    "--reward",
    "--certainty",
    "--model",
]
VALUES = ["2", "1:3", "2,2", "0", "99", "EEE", "EEE,VVV", "auto", "a", "a,b", ",", "csv", "made", "-1", "1e9"]
VALUES += ["t", "drop", "em", "utility", "0.5", "nan", "inf", "low-rank", "rows.csv"]
SWITCHES = ["--standardize", "--json", "--quiet", "--no-plots", "--force", "--stream", "--no-header", "--speed"]
SWITCHES += ["--noise", "--semi-supervised", "--debug"]


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
        case "missing":
            X[rng.random(shape) < draw(st.sampled_from([0.05, 0.3, 0.8]))] = np.nan
        case "outliers":
            X[rng.integers(shape[0])] *= draw(st.sampled_from([1e2, 1e6, 1e30]))
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
        "covariance": st.sampled_from([*MODELS, "low-rank", "low-rank", "tied", "V", "XXX", 3]),
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
        "noise": st.sampled_from([True, True, False, 1, "auto", None]),
        "tails": st.sampled_from(["t", "t", "gaussian", "heavy", None]),
        "n_factors": st.sampled_from([1, 2, "auto", 0, 99, 10**400, None]),
        "warm_start": st.sampled_from([True, 1]),
        "checkpoint": st.sampled_from(["/no/such/place", "", 3]),
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


PROBABILITIES = [0.0, 1.0, 0.5, 1 / 3, np.nan, 1e-300, 2.0, -0.1, np.inf]


@st.composite
def knowledge(draw: Any, n_rows: int, n_clusters: int) -> dict[str, Any]:
    """Labels, their reliability, and links, most of them sound."""
    number = st.sampled_from([-1, -1, *range(n_clusters), n_clusters, -2, 10**20, 0.5, None, "a"])
    members = st.one_of(st.none(), st.sets(st.integers(-1, n_clusters), max_size=3))
    size = {"min_size": n_rows, "max_size": n_rows + draw(st.sampled_from([0, 0, 0, 1]))}
    entries = st.lists(st.sampled_from(PROBABILITIES), min_size=n_rows * n_clusters, max_size=n_rows * n_clusters)
    kinds: dict[str, Any] = {
        "none": st.none(),
        "sound": st.lists(st.integers(-1, n_clusters - 1), **size),
        "numbers": st.lists(number, **size),
        "sets": st.lists(members, **size),
        "probabilities": entries.map(lambda cells: np.reshape(cells, (n_rows, n_clusters))),
        "anything": st.sampled_from([3, "all", {}, [[]], np.array(["a"] * n_rows), object()]),
    }
    index = st.one_of(st.integers(0, n_rows - 1), st.sampled_from([-1, n_rows, 10**30, 0.5, np.nan, "0"]))
    few = st.lists(st.tuples(st.integers(0, n_rows - 1), st.integers(0, n_rows - 1)), max_size=5)
    links = st.one_of(
        st.none(), few, few, st.lists(st.tuples(index, index), max_size=3), st.sampled_from([3, "ab", [1]])
    )
    given = {"labels": draw(kinds[draw(st.sampled_from(sorted(kinds)))])}
    reliability = draw(st.sampled_from([None, None, 1.0, 0.5, 0.0, *NASTY, "sure", [0.5] * n_rows]))
    return {
        **given,
        **({} if reliability is None else {"reliability": reliability}),
        "must_link": draw(links),
        "cannot_link": draw(links),
    }


@st.composite
def field(draw: Any) -> dict[str, Any]:
    """Parameters of the clusterers of the field; each takes those that it has."""
    real = st.sampled_from([0.0, 0.5, 1.0, 1.5, 2.0, 10.0, 1e-9, 1e100, -1.0, np.nan, np.inf, 10**400, None, "much"])
    numbers = ("alpha", "beta", "gamma", "delta", "eta", "xi", "tol", "d0", "reg_covar", "penalty", "novelty_nu")
    choices: dict[str, Any] = dict.fromkeys(numbers, real)
    choices |= {
        "metric": st.sampled_from(["euclidean", "cityblock", "precomputed", "cosine", "none", 3]),
        "distance": st.sampled_from(["euclidean", "mahalanobis", "none"]),
        "focal_sets": st.sampled_from([*FAMILIES, "some", [[0], [1]], [[]], [[7]], 4]),
        "n_pairs": st.sampled_from([1, 2, 5, 0, 10**6, None]),
        "n_bins": st.sampled_from([None, 1, 2, 3, 10**9]),
        "n_neighbors": st.sampled_from([1, 2, 5, 0, 10**6]),
        "hidden": st.sampled_from([1, 5, (3, 3), 0, "two"]),
        "batch_size": st.sampled_from([1, 7, 0, 10**9]),
        "novelty": st.sampled_from([True, False]),
        "init": st.sampled_from(["kmeans", "random", [[0.0]], [0, 1], None, "peaks"]),
        "n_init": st.sampled_from([1, 2, 0]),
        "views": st.sampled_from([[1, 1], [1], [5], [], "ab"]),
        "random_state": st.sampled_from([0, None, -1, "seed"]),
    }
    return {name: draw(choices[name]) for name in draw(st.sets(st.sampled_from(sorted(choices)), max_size=3))}


@st.composite
def damaged_bytes(draw: Any, whole: bytes) -> bytes:
    """The bytes of a file, some of them changed, or cut."""
    if draw(st.integers(0, 4)) == 0:
        return whole[: draw(st.integers(0, len(whole) - 1))]
    content = bytearray(whole)
    for _ in range(draw(st.integers(1, 4))):
        content[draw(st.integers(0, len(whole) - 1))] = draw(st.sampled_from([0, 1, 32, 40, 57, 127, 128, 255]))
    return bytes(content)
