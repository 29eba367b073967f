"""Compiled code kept between processes: damaged, unwanted or impossible caches only cost the time to compile."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from egmm import _cache

posix = pytest.mark.skipif(sys.platform == "win32", reason="permissions and limits of POSIX")

PACKAGE = """
from pathlib import Path
import numba
from egmm._cache import cached_in

cached = cached_in(Path(__file__).parent)

@cached(nogil=True)
def part(x):
    return x * 2.0

@cached(nogil=True)
def whole(x):
    return part(x) + 1.0
"""

USE = """
import sys
sys.path.insert(0, '{}')
import kernels
{}
print(kernels.whole(3.0), sum(kernels.whole.stats.cache_hits.values()))
"""


@pytest.fixture(scope="module")
def code(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of two kernels."""
    folder: Path = tmp_path_factory.mktemp("code")
    (folder / "kernels.py").write_text(PACKAGE)
    return folder


def compiler(code: Path, place: Path) -> Any:
    """Compile or load two kernels in a process of their own; return the result, and how many were in the cache."""
    (place / "work").mkdir()
    source = str(Path(_cache.__file__).parents[1])

    def run(before: str = "", after_import: str = "", **variables: str | None) -> tuple[float, int]:
        found = {**os.environ, "PYTHONPATH": source, "XDG_CACHE_HOME": str(place / "cache"), **variables}
        found.pop("NUMBA_CACHE_DIR", None)
        environment = {name: value for name, value in found.items() if value is not None}
        command = [sys.executable, "-B", "-c", before + USE.format(code, after_import)]
        cwd = place / "work"
        result = subprocess.run(command, env=environment, cwd=cwd, capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stderr
        value, hits = result.stdout.split()
        return float(value), int(hits)

    return run


@pytest.fixture
def compile_with(code: Path, tmp_path: Path) -> Any:
    """A cache directory that does not exist yet."""
    return compiler(code, tmp_path)


@pytest.fixture(scope="module")
def filled(code: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache with both kernels."""
    place: Path = tmp_path_factory.mktemp("filled")
    assert compiler(code, place)() == (7.0, 0)
    return place / "cache"


@pytest.fixture
def compile_again(filled: Path, compile_with: Any, tmp_path: Path) -> Any:
    """A cache of this test's own with both kernels."""
    shutil.copytree(filled, tmp_path / "cache")
    return compile_with


def cache_files(tmp_path: Path, suffix: str) -> list[Path]:
    return sorted((tmp_path / "cache").rglob(f"*{suffix}"))


def test_what_was_compiled_is_found_again(compile_with: Any, tmp_path: Path) -> None:
    assert compile_with() == (7.0, 0)
    assert compile_with() == (7.0, 1)
    assert len(cache_files(tmp_path, ".nbi")) == 2


@pytest.mark.parametrize("suffix", [".nbi", ".nbc", _cache.SEAL])
@pytest.mark.parametrize("damage", ["empty", "cut", "garbled", "nested"])
def test_damaged_files_are_compiled_again(compile_again: Any, tmp_path: Path, suffix: str, damage: str) -> None:
    for path in cache_files(tmp_path, suffix):
        whole = path.read_bytes()
        garbled = bytes(byte ^ 0x55 if at % 7 == 3 else byte for at, byte in enumerate(whole))
        damaged = {"empty": b"", "cut": whole[: len(whole) // 2], "garbled": garbled, "nested": b"[" * 100_000}
        path.write_bytes(damaged[damage])
    assert compile_again() == (7.0, 0)
    assert compile_again() == (7.0, 1)


def test_a_file_that_nobody_sealed_is_not_run(compile_again: Any, tmp_path: Path) -> None:
    for path in cache_files(tmp_path, ".nbi"):
        # A pickle that would write a file.
        path.write_bytes(b"cos\nsystem\n(S'touch planted'\ntR.")
    assert compile_again() == (7.0, 0)
    assert not list((tmp_path / "work").iterdir())


@pytest.mark.parametrize("value", ["", ".", "cache", "./cache"])
def test_a_cache_in_the_working_directory_is_not_used(compile_with: Any, tmp_path: Path, value: str) -> None:
    assert compile_with(XDG_CACHE_HOME=value, HOME=str(tmp_path / "home")) == (7.0, 0)
    assert list((tmp_path / "work").iterdir()) == []
    assert compile_with(XDG_CACHE_HOME=value, HOME=str(tmp_path / "home")) == (7.0, 1)


@posix
def test_a_user_without_a_home_compiles_for_each_process(compile_with: Any, tmp_path: Path) -> None:
    unknown = "import pwd; pwd.getpwuid = lambda uid: {}[uid]; "
    assert compile_with(unknown, XDG_CACHE_HOME=None, HOME=None) == (7.0, 0)
    assert compile_with(unknown, XDG_CACHE_HOME=None, HOME=None) == (7.0, 0)


FULL = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)); "
"""A limit on the size of files stands for a full disk."""


@posix
@pytest.mark.parametrize("when", ["before", "after_import"])
def test_a_full_disk_only_means_no_cache(compile_with: Any, tmp_path: Path, when: str) -> None:
    assert compile_with(**{when: FULL}) == (7.0, 0)
    assert cache_files(tmp_path, ".nbi") == []
    assert compile_with() == (7.0, 0)
    assert compile_with() == (7.0, 1)


@posix
def test_a_cache_that_can_no_longer_be_read_is_compiled_again(compile_again: Any, tmp_path: Path) -> None:
    unreadable = "import builtins\ndef fails(*a, **k):\n    raise PermissionError('cache')\nbuiltins.open = fails\n"
    assert compile_again(after_import=unreadable) == (7.0, 0)


def test_remains_of_killed_processes_are_removed(compile_again: Any, tmp_path: Path) -> None:
    (place,) = (tmp_path / "cache" / "egmm").iterdir()
    for name in ("probe-0123", f"{_cache.SEAL}.0123", "kernels.nbi.tmp.0123"):
        (place / name).write_bytes(b"part")
    assert compile_again() == (7.0, 1)
    assert not list(place.rglob("*0123"))


@posix
def test_the_directory_is_the_user_s_alone(compile_with: Any, tmp_path: Path) -> None:
    (tmp_path / "cache" / "egmm").mkdir(parents=True, mode=0o755)
    compile_with()
    for place in (tmp_path / "cache" / "egmm", *(tmp_path / "cache" / "egmm").iterdir()):
        assert place.stat().st_mode & 0o777 == 0o700


@posix
@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702])
def test_what_others_could_have_written_is_not_run(compile_again: Any, tmp_path: Path, mode: int) -> None:
    (place,) = (tmp_path / "cache" / "egmm").iterdir()
    for path in place.rglob("*.nbi"):
        path.write_bytes(b"cos\nsystem\n(S'touch planted'\ntR.")
    _cache.seal(place)  # the checksums are public
    place.chmod(mode)
    assert compile_again() == (7.0, 0)
    assert not list((tmp_path / "work").iterdir())
    assert place.stat().st_mode & 0o777 == 0o700


@posix
def test_a_directory_of_somebody_else_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert _cache._is_own(tmp_path / "own")
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    assert not _cache._is_own(tmp_path / "own")
    monkeypatch.undo()
    (tmp_path / "link").symlink_to(tmp_path / "own")
    assert not _cache._is_own(tmp_path / "link")
    (tmp_path / "file").write_text("")
    assert not _cache._is_own(tmp_path / "file")
    assert not _cache._is_own(tmp_path / "file" / "below")
