#!/usr/bin/env python3
"""Copy the tree without some features: `tools/take_out.py NAME… TARGET`, or all but the local spark-submit: `--kernel-alone TARGET`.

Out of the copy go the features' files by their room (`tools/rooms.py`), their entries in the lists of features, the modules
that are gone in contracts of import-linter, and the tests and measurements that import what is
gone. A test that imports nothing of a feature and still needs it says so with the marker `feature`. Tests that compare the
product as a whole with its pages and lists are left out. Prints what was taken out.

`--check` runs mypy, the import contracts and the remaining tests in the copy, and fails if one of them fails. `--leaves`
prints the features that no other needs, as JSON: each of them can be taken out by itself.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

REPOSITORY: Final = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(REPOSITORY / "tools")]

from rooms import Product, module_of, room_of  # noqa: E402  only now is it found

LOCAL: Final = frozenset({"spark_submit"})
"""The features that stay with the kernel alone."""
WHOLE: Final = ("tests/unit/docs/*", "tests/unit/frame/*", "tests/upgrade/*", "tests/service/store/test_sql_pages.py")
"""Tests that hold the whole product to its pages, lists and releases."""
READERS: Final = ("tests/", "bench/", "examples/")
"""Where Python files go with what they import."""
KERNEL_SUITE: Final = (
    *(f"tests/unit/{room}" for room in ("api", "cli", "config", "dispatcher", "edge", "isolation", "logs")),
    *(f"tests/unit/{room}" for room in ("scheduler", "store", "submit", "triggerer", "triggers")),
    *(f"tests/service/{room}" for room in ("store", "scheduler", "dispatcher", "triggerer", "frame")),
)
"""The folders that test the kernel: what remains of them without the features. What jobs import is tested in tests/unit/sdk."""
ROUND: Final = "not (spark or slow or browser or airflow or maven or container or go or kubernetes)"


@dataclass(frozen=True, kw_only=True)
class TakenOut:
    """What a copy lacks. `readers` maps tests and measurements to what is gone of that which they import."""

    features: frozenset[str]
    files: frozenset[str]
    readers: Mapping[str, str]
    contracts: Sequence[str]

    def lines(self) -> Iterator[str]:
        yield f"features: {', '.join(sorted(self.features))}"
        yield f"{len(self.files)} files of the product"
        yield f"{len(self.readers)} tests and measurements:"
        yield from (f"  {file}: {reason}" for file, reason in sorted(self.readers.items()))
        yield f"{len(self.contracts)} changes of import contracts:"
        yield from (f"  {line}" for line in self.contracts)


def take_out(features: Collection[str], target: Path, *, repository: Path = REPOSITORY) -> TakenOut:
    """Copy the tracked tree without the features. Raises `ValueError` for a feature that is unknown or that another needs."""
    product = Product(repository)
    _refuse(product, frozenset(features))
    files = tracked(repository)
    gone = frozenset(file for file in files if room_of(file) in features)
    left_out = {module for module, file in product.files.items() if file in gone}
    texts = {
        file: (repository / file).read_text(encoding="utf-8")
        for file in files
        if file.endswith(".py") and file.startswith(READERS)
    }
    readers = readers_of(left_out, texts)
    for file in sorted({*files} - gone - readers.keys()):
        (target / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(repository / file, target / file, follow_symlinks=False)
    for listing in target.glob("*/features/__init__.py"):
        listing.write_text(without_entries(listing.read_text(encoding="utf-8"), features), encoding="utf-8")
    contracts = _cut_contracts(target / "pyproject.toml", left_out)
    return TakenOut(features=frozenset(features), files=gone, readers=readers, contracts=contracts)


def _refuse(product: Product, features: frozenset[str]) -> None:
    if unknown := features - {*product.features}:
        raise ValueError(f"there is no feature {min(unknown)}; there are {', '.join(product.features)}")
    for feature, needs in product.needs.items():
        if feature not in features and (needed := needs & features):
            raise ValueError(f"{feature} needs {min(needed)}; take out {feature} as well")


def tracked(repository: Path) -> list[str]:
    """The files of the tree that git knows, and the new ones that it does not ignore, as they are now."""
    command: Sequence[str | Path] = [
        "git",
        "-C",
        repository,
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
    ]
    names = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split("\0")
    return sorted(name for name in names if name and (repository / name).is_file())


def leaves(product: Product) -> list[str]:
    """The features that no other feature needs."""
    needed = {target for targets in product.needs.values() for target in targets}
    return [feature for feature in product.features if feature not in needed]


# Tests and measurements.


def readers_of(gone: Collection[str], texts: Mapping[str, str]) -> Mapping[str, str]:
    """The files among `texts` that cannot do without a module that is gone, each with its reason.

    A test imports it anywhere, another file where it is loaded. Who imports a file that goes, goes too; with a conftest.py
    go the tests below it.
    """
    imports = {file: set(_imported(file, ast.parse(text))) for file, text in texts.items()}
    readers = {file: "compares the whole product" for file in texts if any(fnmatchcase(file, part) for part in WHOLE)}
    missing = {module: module for module in gone}
    while True:
        more: dict[str, str] = {}
        for file in texts.keys() - readers.keys():
            if reason := next((missing[name] for name in sorted(imports[file]) if name in missing), None):
                more[file] = f"imports {reason}"
            elif above := next((other for other in readers if _is_below(file, other)), None):
                more[file] = f"stands below {above}"
        if not more:
            return readers
        readers |= more
        missing |= {_module_of_reader(file): _module_of_reader(file) for file in more}


def _is_below(file: str, conftest: str) -> bool:
    """Whether a file of tests gets fixtures from this conftest.py."""
    folder, _, name = conftest.rpartition("/")
    return name == "conftest.py" and file.startswith(f"{folder}/") and file.rpartition("/")[2].startswith("test_")


def _module_of_reader(file: str) -> str:
    return module_of(file.removeprefix("bench/"))


def _imported(file: str, tree: ast.Module) -> Iterator[str]:
    """Every dotted path that a file's imports could name: of a test all, of other files those outside functions.

    What a test with the marker `feature` imports counts no more than the test itself, which is left out by its marker.
    """
    is_test = file.rpartition("/")[2].startswith("test_")
    for node in _beside_marked(tree) if is_test else _at_load(tree):
        match node:
            case ast.Import(names=names):
                yield from (each.name for each in names)
            case ast.ImportFrom(module=str(module), names=names, level=0):
                yield module
                yield from (f"{module}.{each.name}" for each in names)


def _beside_marked(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        marks = getattr(child, "decorator_list", ())
        if not any(ast.unparse(mark).startswith("pytest.mark.feature(") for mark in marks):
            yield child
            yield from _beside_marked(child)


def _at_load(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield child
            yield from _at_load(child)


# Lists and contracts.


def without_entries(source: str, features: Collection[str]) -> str:
    """The module that lists features, without what names one of these."""
    of_features = re.compile(rf"(?:.*\bfeatures\.)?(?:{'|'.join(map(re.escape, sorted(features)))})(?:[.:].*)?")
    return ast.unparse(_Cutter(of_features).visit(ast.parse(source))) + "\n"


class _Cutter(ast.NodeTransformer):
    """Removes imports of what is gone, and the entries of lists and mappings that name it."""

    def __init__(self, gone: re.Pattern[str]) -> None:
        self._gone = gone
        self._names: set[str] = set()

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST | None:
        whole = self._gone.fullmatch(node.module or "") is not None
        gone = [each for each in node.names if whole or self._gone.fullmatch(f"{node.module}.{each.name}")]
        self._names |= {each.asname or each.name for each in gone}
        node.names = [each for each in node.names if each not in gone]
        return node if node.names else None

    def visit_List(self, node: ast.List) -> ast.AST:
        node.elts = [each for each in node.elts if not self._names_what_is_gone(each)]
        return self.generic_visit(node)

    def visit_Tuple(self, node: ast.Tuple) -> ast.AST:
        node.elts = [each for each in node.elts if not self._names_what_is_gone(each)]
        return self.generic_visit(node)

    def visit_Dict(self, node: ast.Dict) -> ast.AST:
        kept = [
            (key, value)
            for key, value in zip(node.keys, node.values, strict=True)
            if not (self._names_what_is_gone(key) or self._names_what_is_gone(value))
        ]
        node.keys, node.values = [key for key, _ in kept], [value for _, value in kept]
        return self.generic_visit(node)

    def _names_what_is_gone(self, node: ast.AST | None) -> bool:
        match node:
            case ast.Constant(value=str(text)):
                return self._gone.fullmatch(text) is not None
            case ast.Starred(value=inner) | ast.Attribute(value=inner) | ast.Call(func=inner):
                return self._names_what_is_gone(inner)
            case ast.Name(id=name):
                return name in self._names
        return False


def _cut_contracts(file: Path, gone: Collection[str]) -> list[str]:
    """Take modules that are gone out of the import contracts. Returns a line for each change."""
    text = file.read_text(encoding="utf-8")
    settings = tomllib.loads(text)["tool"]["importlinter"]
    head = text.partition("[tool.importlinter]")[0]
    changes: list[str] = []
    contracts = [
        cut for contract in settings["contracts"] if (cut := cut_contract(contract, gone, changes)) is not None
    ]
    names = ", ".join(f'"{name}"' for name in settings["root_packages"])
    lines = ["[tool.importlinter]", f"root_packages = [{names}]"]
    for contract in contracts:
        lines += ["", "[[tool.importlinter.contracts]]", *(f"{key} = {json.dumps(contract[key])}" for key in contract)]
    file.write_text(head + "\n".join(lines) + "\n", encoding="utf-8")
    return changes


def cut_contract(contract: Mapping[str, Any], gone: Collection[str], changes: list[str]) -> dict[str, Any] | None:
    """The contract without the modules that are gone. None: nothing is left that it could forbid."""
    cut = dict(contract)
    inside = {module.removeprefix(f"{container}.") for container in contract.get("containers", ()) for module in gone}
    for key in ("modules", "source_modules", "forbidden_modules", "layers"):
        if key not in contract:
            continue
        cut[key] = [left for entry in contract[key] if (left := _without(entry, {*gone, *inside}))]
        if cut[key] != contract[key]:
            changes.append(f"{contract['name']}: {key}")
        if not cut[key]:
            return None
    if "ignore_imports" in contract:
        cut["ignore_imports"] = [entry for entry in contract["ignore_imports"] if _is_left(entry, gone)]
        cut["unmatched_ignore_imports_alerting"] = "none"
    return cut


def _without(entry: str, gone: Collection[str]) -> str:
    """A layer, such as `a | b : c`, without what is gone."""
    parts = re.split(r"( [|:] )", entry)
    left: list[str] = []
    for separator, module in zip(["", *parts[1::2]], parts[::2], strict=True):
        if module.strip("() ") not in gone:
            left += [separator if left else "", module]
    return "".join(left)


def _is_left(arrow: str, gone: Collection[str]) -> bool:
    return not any(part.strip() in gone for part in arrow.split("->"))


# Checks.


def check(target: Path, suite: Iterable[str]) -> list[str]:
    """Run mypy, the import contracts and the tests of a copy, as far as its features left some. Returns what failed."""
    python = sys.executable
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (target, target / "sdk")))}
    pytest = [python, "-m", "pytest", "-q", "-n", "2", "--dist", "loadscope"]
    # The programs beside this Python would load the tree that is installed, but for PYTHONPATH.
    commands = {
        "mypy": [python, "-m", "mypy"],
        "import contracts": [str(Path(python).with_name("lint-imports")), "--no-logo"],
        "tests": [*pytest, "-m", ROUND, *(path for path in suite if (target / path).exists())],
    }
    failed: list[str] = []
    for name, command in commands.items():
        print(f"{name} of {target}:", flush=True)
        if subprocess.run(command, cwd=target, env=environment, check=False).returncode != 0:
            failed.append(name)
    return failed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--kernel-alone", action="store_true", help="take out all features but the local spark-submit")
    parser.add_argument("--leaves", action="store_true", help="print the features that no other needs, as JSON")
    parser.add_argument("--check", action="store_true", help="run mypy, import contracts and tests in the copy")
    parser.add_argument("words", nargs="*", metavar="NAME… TARGET")
    arguments = parser.parse_args()
    product = Product(REPOSITORY)
    if arguments.leaves:
        print(json.dumps(leaves(product)))
        return
    *names, target = arguments.words or [""]
    if not target or bool(names) == arguments.kernel_alone:
        parser.error("name features and a folder for the copy, or --kernel-alone and the folder")
    folder = Path(target).resolve()
    if folder.exists() and any(folder.iterdir()):
        parser.error(f"{target} is not empty; name another folder")
    features = set(product.features) - LOCAL if arguments.kernel_alone else set(names)
    try:
        taken_out = take_out(features, folder)
    except ValueError as error:
        parser.error(str(error))
    print("\n".join(taken_out.lines()))
    suite = KERNEL_SUITE if arguments.kernel_alone else ("tests",)
    if arguments.check and (failed := check(folder, suite)):
        sys.exit(f"failed without {', '.join(sorted(features))}: {', '.join(failed)}")


if __name__ == "__main__":
    main()
