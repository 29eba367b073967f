"""Check the tests: change the code in one place at a time, and count the changes that the tests notice.

    python tools/mutate.py belief rows metrics --number 40 --seed 1

Each mutant is one changed operator, comparison, constant, condition or returned value of a module, run in a copy of the
package against the tests of the mirror folder: first those of the module itself, then the others, until one fails.
Survivors are listed: a test is missing, or the change makes no difference.
"""

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
NO_TESTS = 5
"""Exit code of pytest where all tests are slow."""
PATIENCE = 4
"""Most time for the tests of a mutant, as a multiple of the time without a change."""

SWAPS: dict[type, type] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.And: ast.Or,
    ast.Or: ast.And,
}


class Mutant(NamedTuple):
    """A module with one change."""

    path: Path
    line: int
    before: str
    after: str
    text: str


def places(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield the nodes that can be changed; annotations and texts are left alone."""
    skipped: set[int] = set()
    for node in ast.walk(tree):
        for name in ("annotation", "returns"):
            part = getattr(node, name, None)
            if isinstance(part, ast.AST):
                skipped.update(id(below) for below in ast.walk(part))
    for node in ast.walk(tree):
        if id(node) not in skipped and _changed(node) is not None:
            yield node


def _changed(node: ast.AST) -> ast.AST | None:
    """Return what stands for a node after the change; None where there is nothing to change."""
    match node:
        case ast.BinOp(op=op) | ast.BoolOp(op=op) if type(op) in SWAPS:
            return _with(node, op=SWAPS[type(op)]())
        case ast.Compare(ops=[op]) if type(op) in SWAPS:
            return _with(node, ops=[SWAPS[type(op)]()])
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return operand
        case ast.Constant(value=bool() as value):
            return ast.Constant(not value)
        case ast.Constant(value=int() | float() as value):
            return ast.Constant(value + 1)
        case ast.If() | ast.IfExp() | ast.While():
            return _with(node, test=ast.UnaryOp(ast.Not(), node.test))
        case ast.Return(value=ast.expr()):
            return ast.Return(ast.Constant(None))
    return None


def _with(node: ast.AST, **fields: object) -> ast.AST:
    return type(node)(**{**{name: getattr(node, name) for name in node._fields}, **fields})


class _Replace(ast.NodeTransformer):
    """Put one node in the place of another."""

    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self.old, self.new = old, new

    def visit(self, node: ast.AST) -> ast.AST:
        return self.new if node is self.old else self.generic_visit(node)


def mutants(folder: Path, number: int, random_state: random.Random) -> list[Mutant]:
    """Choose changes at random among all places of a folder's modules."""
    found = [
        (path, at)
        for path in sorted(folder.rglob("*.py"))
        for at, _ in enumerate(places(ast.parse(path.read_text(encoding="utf-8"))))
    ]
    return [_mutant(path, at) for path, at in random_state.sample(found, min(number, len(found)))]


def _mutant(path: Path, at: int) -> Mutant:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    node = list(places(tree))[at]
    new = _changed(node)
    assert new is not None
    line, before = getattr(node, "lineno", 0), _short(node)
    changed = ast.fix_missing_locations(_Replace(node, new).visit(tree))
    return Mutant(path, line, before, _short(new), ast.unparse(changed))


def _short(node: ast.AST) -> str:
    """The part of a node that shows a change."""
    shown = node.test if isinstance(node, ast.If | ast.While) else node
    return " ".join(ast.unparse(ast.fix_missing_locations(shown)).split())[:90]


def test_runs(path: Path) -> list[tuple[str, ...]]:
    """Arguments of pytest, run by run: the tests of a module, if it has some, and the others of its folder."""
    folder = f"tests/{path.relative_to(ROOT / 'src' / 'egmm').parts[0]}"
    stem = "kernels" if path.parent.name == "compiled" else path.stem
    own = f"{folder}/test_{stem}.py"
    return [(own,), (folder, f"--ignore={own}")] if (ROOT / own).is_file() else [(folder,)]


def is_killed(mutant: Mutant, package: Path) -> bool:
    """Run the tests on a copy of the package with the change; a run that takes too long has noticed it."""
    target = package / mutant.path.relative_to(ROOT / "src")
    whole = target.read_text(encoding="utf-8")
    for tests in test_runs(mutant.path):
        seconds = PATIENCE * seconds_without_change(package, tests)
        target.write_text(mutant.text, encoding="utf-8")
        try:
            if not _passes(package, tests, seconds):
                return True
        except subprocess.TimeoutExpired:
            return True
        finally:
            target.write_text(whole, encoding="utf-8")
    return False


@cache
def seconds_without_change(package: Path, tests: tuple[str, ...]) -> float:
    """Time of tests that pass; a failure says something only if they do."""
    began = time.monotonic()
    if not _passes(package, tests):
        sys.exit(f"pytest {' '.join(tests)} fails without any change.")
    return time.monotonic() - began


def _passes(package: Path, tests: Sequence[str], seconds: float | None = None) -> bool:
    options = ["-x", "-q", "-p", "no:cacheprovider", "-m", "not slow"]
    environment = {**os.environ, "PYTHONPATH": str(package), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-B", "-m", "pytest", *options, *tests]
    result = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, timeout=seconds, check=False)
    return result.returncode in (0, NO_TESTS)


def main() -> None:
    """Read the command line, try the mutants and list the survivors."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", help="folders of src/egmm, such as belief")
    parser.add_argument("--number", type=int, default=20, help="mutants per folder")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    killed = tried = 0
    with tempfile.TemporaryDirectory() as place:
        package = Path(place)
        shutil.copytree(ROOT / "src", package, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
        for folder in options.folders:
            chosen = mutants(ROOT / "src" / "egmm" / folder, options.number, random.Random(options.seed))
            for mutant in chosen:
                tried += 1
                if is_killed(mutant, package):
                    killed += 1
                    continue
                where = f"{mutant.path.relative_to(ROOT)}:{mutant.line}"
                sys.stdout.write(f"survived: {where}: {mutant.before}  ->  {mutant.after}\n")
                sys.stdout.flush()
    sys.stdout.write(f"{killed} of {tried} mutants killed ({100 * killed / max(tried, 1):.0f} %)\n")


if __name__ == "__main__":
    main()
