"""A real browser for pages, where one is installed."""

import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

CHROMIUM = os.environ.get("EGMM_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
# Without a sandbox because CI is root; the rest keeps the browser from calling home.
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Headless Chromium; tests that need it are skipped where there is none."""
    if CHROMIUM is None:
        pytest.skip("needs Chromium: install Debian's package chromium, or name the program in EGMM_CHROMIUM")
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright, one of the dev requirements")
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield chromium
        chromium.close()
