#!/usr/bin/env python3
"""Print the sizes of the code for a reader to judge: `tools/house.py`, `tools/house.py --since REF`. Nothing is asserted.

Lengths of functions and files stand beside those of packages that are worth imitating, as they are installed here. Then
come the files that grew by a third since the last version, and the functions whose complexity is above 15. A function
counts from its `def` to its last line, docstring included; a file counts if it defines something. Migrations do not.
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from typing import Final

REPOSITORY: Final = Path(__file__).resolve().parents[1]
PACKAGES: Final = ("config", "store", "triggers", "watcher", "sdk")
ANCHORS: Final = ("anyio", "httpx", "structlog", "stamina", "starlette", "uvicorn")
MIGRATIONS: Final = "store/database/migrations/versions/"
COMPLEX: Final = 15
GROWN: Final = 4 / 3
BRANCHES: Final = (
    ast.If,
    ast.For,
    ast.AsyncFor,
    ast.While,
    ast.ExceptHandler,
    ast.IfExp,
    ast.comprehension,
    ast.Assert,
    ast.match_case,
)


@dataclass(frozen=True, kw_only=True)
class Function:
    """A function or method, where it stands, and its size."""

    file: str
    line: int
    name: str
    lines: int
    complexity: int


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """The functions of a package, and the lines of its files that define something."""

    functions: Sequence[Function]
    files: Sequence[int]


@dataclass(frozen=True, kw_only=True)
class Growth:
    """A file's lines at the reference and now."""

    file: str
    before: int
    now: int


def sizes_of(files: Iterable[Path], root: Path) -> Sizes:
    """Measure the files. `root` is what their names are relative to."""
    functions: list[Function] = []
    lengths: list[int] = []
    for file in files:
        text = file.read_text(encoding="utf-8")
        here = list(_functions(ast.parse(text), file.relative_to(root).as_posix()))
        functions += here
        if here or file.name != "__init__.py":
            lengths.append(len(text.splitlines()))
    return Sizes(functions=functions, files=lengths)


def _functions(tree: ast.Module, file: str) -> Iterator[Function]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno is not None:
            yield Function(
                file=file,
                line=node.lineno,
                name=node.name,
                lines=node.end_lineno - node.lineno + 1,
                complexity=complexity(node),
            )


def complexity(function: ast.AST) -> int:
    """McCabe's number: one, and one more for each branch, loop, handler, condition and case."""
    parts = list(ast.walk(function))
    operators = sum(len(part.values) - 1 for part in parts if isinstance(part, ast.BoolOp))
    return 1 + operators + sum(isinstance(part, BRANCHES) for part in parts)


def product_files(repository: Path = REPOSITORY) -> list[Path]:
    """Every Python file of the product but the migrations."""
    files = (file for package in PACKAGES for file in sorted((repository / package).rglob("*.py")))
    return [file for file in files if MIGRATIONS not in file.as_posix()]


def installed_files(package: str) -> list[Path]:
    """The Python files of an installed package, without its tests. None of it is imported. Empty: it is not installed."""
    spec = importlib.util.find_spec(package)
    folders = (spec.submodule_search_locations or []) if spec is not None else []
    return [file for folder in folders for file in sorted(Path(folder).rglob("*.py")) if "test" not in file.as_posix()]


def shape(name: str, sizes: Sizes) -> str:
    """A line of the table: median and 90th percentile of functions and of files, and the longest file."""
    functions = [function.lines for function in sizes.functions]
    middle, high = median(functions), quantiles(functions, n=10)[-1]
    files, long = median(sizes.files), quantiles(sizes.files, n=10)[-1]
    return f"{name:12} {middle:10g} {high:6.0f} {files:10g} {long:6.0f} {max(sizes.files):8}"


def last_version() -> str:
    """The tag of the newest version. Without tags: the commit that last changed the version in pyproject.toml."""
    tags = _git("tag", "--list", "v*", "--sort=-v:refname").split()
    return tags[0] if tags else _git("log", "-1", "--format=%h", "-G", '^version = "', "--", "pyproject.toml").strip()


def grown_since(reference: str) -> list[Growth]:
    """The files that have a third more lines than at the reference, also under another name, the most grown first."""
    grown: list[Growth] = []
    for line in _git("diff", "--numstat", "-M", reference, "--", *PACKAGES).splitlines():
        added, removed, name = line.split("\t")
        file = new_name(name)
        if not file.endswith(".py") or not (REPOSITORY / file).exists():
            continue
        now = len((REPOSITORY / file).read_text(encoding="utf-8").splitlines())
        before = now - int(added) + int(removed)
        if before and now >= before * GROWN:
            grown.append(Growth(file=file, before=before, now=now))
    return sorted(grown, key=lambda growth: growth.before - growth.now)


def new_name(name: str) -> str:
    """The name after a rename, which git writes as `old => new` or `folder/{old => new}/file`."""
    if "{" in name:
        head, _, rest = name.partition("{")
        inside, _, tail = rest.partition("}")
        return (head + inside.partition(" => ")[2] + tail).replace("//", "/")
    return name.rpartition(" => ")[2]


def _git(*arguments: str) -> str:
    return subprocess.run(["git", "-C", REPOSITORY, *arguments], check=True, capture_output=True, text=True).stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--since", metavar="REF", help="compare with this commit instead of the last version")
    reference = parser.parse_args().since or last_version()
    ours = sizes_of(product_files(), REPOSITORY)
    print(f"{'':12} {'functions':>10} {'90 %':>6} {'files':>10} {'90 %':>6} {'longest':>8}")
    print(shape("ours", ours))
    for anchor in ANCHORS:
        if files := installed_files(anchor):
            print(shape(anchor, sizes_of(files, files[0].parent.parent)))
    grown = grown_since(reference)
    print(f"\n{len(grown)} files grew by a third since {reference}:")
    for growth in grown:
        print(f"  {growth.before:5} -> {growth.now:4}  {growth.file}")
    complex_ones = sorted(
        (function for function in ours.functions if function.complexity > COMPLEX), key=lambda each: -each.complexity
    )
    print(f"\n{len(complex_ones)} functions have a complexity above {COMPLEX}:")
    for function in complex_ones:
        print(f"  {function.complexity:5}  {function.file}:{function.line} {function.name}")


if __name__ == "__main__":
    main()
