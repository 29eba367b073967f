"""What every test shares: fixed seeds and the data sets that are not in the repository."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import sklearn.datasets
from hypothesis import settings

from egmm.datasets import Dataset, load_uci

# Examples are the same in every run, and a busy machine is no failure.
settings.register_profile("egmm", deadline=None, derandomize=True)
settings.load_profile("egmm")

# A shell starts what runs in the background with Ctrl-C ignored; the commands that tests interrupt would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

SEED = 20220901


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let the fuzz suite run longer than in every test run."""
    parser.addoption("--fuzz", type=int, help="examples of each kind of nasty input, with other random numbers")


def pytest_configure(config: pytest.Config) -> None:
    """Hand the option to the fuzz suite, in whatever process it runs: its examples are counted when it is imported."""
    number = config.getoption("--fuzz", None)
    settings.register_profile("fuzz", settings.get_profile("egmm"))
    if number is not None:
        settings.register_profile("fuzz", settings.get_profile("egmm"), max_examples=number, derandomize=False)


@pytest.fixture
def rng() -> np.random.Generator:
    """A generator with the same seed in every test."""
    return np.random.default_rng(SEED)


@pytest.fixture(params=["numpy", "numba"])
def backend(request: pytest.FixtureRequest) -> str:
    """Every engine in turn."""
    return str(request.param)


@pytest.fixture(scope="session")
def data_directory() -> Path:
    """The directory named by EGMM_DATA; tests that need it are skipped without it."""
    directory = os.environ.get("EGMM_DATA")
    if not directory or not Path(directory).is_dir():
        pytest.skip("needs the data directory named by the environment variable EGMM_DATA")
    return Path(directory)


@pytest.fixture(scope="session")
def uci() -> Callable[[str], Dataset]:
    """Load one of the eight real data sets by name from a file or an installed package; skip where neither has it."""

    directory = os.environ.get("EGMM_DATA")

    def load(name: str) -> Dataset:
        if directory and (Path(directory) / "uci" / f"{name}.csv").is_file():
            return load_uci(name, directory)
        # Tests never wait for a network.
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sklearn.datasets, "fetch_openml", _no_network)
            try:
                return load_uci(name)
            except OSError:
                pytest.skip(f"needs {name}.csv in the directory named by EGMM_DATA, or the package that ships it")

    return load


def _no_network(**options: object) -> None:
    raise OSError("tests do not use the network")
