"""The counted rules of the code's shape and words, read from the sources of the four packages.

A module counts when it defines something: an `__init__.py` that only re-exports, and the migrations, do not. A function
counts from its `def` to its last line, docstring included.
"""

import ast
import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from statistics import median, quantiles

import pytest

ROOT = Path(__file__).parents[3]
PACKAGES = ("config", "store", "triggers", "watcher", "sdk")
MIGRATIONS = ROOT / "store/database/migrations"
SHORT, LONG = 60, 400
LONG_FOR_A_REASON = {"store/database/schema.py": "the list of all tables"}
WORDS = {"found", "wanted", "told", "said"}
BANNER = re.compile(r"^ *# *[-=*#]{3,}", re.MULTILINE)

NOT_YET: Mapping[str, tuple[float, str]] = {"modules over 400 lines": (1, "watcher/app.py, until it builds rooms")}
"""Rules that are not kept yet: how far they are broken at most, and who makes them true."""


@cache
def sources() -> Mapping[Path, str]:
    paths = (path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py")))
    return {path: path.read_text(encoding="utf-8") for path in paths if not path.is_relative_to(MIGRATIONS)}


@cache
def trees() -> Mapping[Path, ast.Module]:
    return {path: ast.parse(text) for path, text in sources().items()}


@cache
def modules() -> Mapping[str, int]:
    """Lines by path, of the modules that define something."""
    return {
        path.relative_to(ROOT).as_posix(): len(sources()[path].splitlines())
        for path, tree in trees().items()
        if path.name != "__init__.py" or any(isinstance(part, ast.FunctionDef | ast.ClassDef) for part in tree.body)
    }


LOOPS = (ast.For, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@cache
def nodes() -> Mapping[type[ast.AST], list[tuple[str, ast.AST]]]:
    """The nodes that the rules ask for, by type, each with its place."""
    by_type: dict[type[ast.AST], list[tuple[str, ast.AST]]] = {
        kind: [] for kind in (ast.Name, ast.arg, ast.MatchAs, *LOOPS, *FUNCTIONS)
    }
    for path, tree in trees().items():
        name = path.relative_to(ROOT).as_posix()
        for node in ast.walk(tree):
            if (listed := by_type.get(type(node))) is not None:
                listed.append((name, node))
    return by_type


@cache
def functions() -> Mapping[str, int]:
    return {
        f"{name}:{node.lineno} {node.name}": node.end_lineno - node.lineno + 1
        for kind in FUNCTIONS
        for name, node in nodes()[kind]
    }


def bound_name(node: ast.AST) -> str | None:
    match node:
        case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name) | ast.MatchAs(name=str(name)):
            return name
    return None


def loops_over_names(node: ast.AST) -> bool:
    """Whether it is a loop or a comprehension that reads `getattr(…, name)` with its own variable."""
    match node:
        case ast.For(target=target):
            targets = [target]
        case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
            targets = [part.target for part in node.generators]
        case _:
            return False
    names = {bound_name(part) for target in targets for part in ast.walk(target)}
    return any(is_getattr_of(part, names) for part in ast.walk(node))


def is_getattr_of(node: ast.AST, names: set[str | None]) -> bool:
    match node:
        case ast.Call(func=ast.Name(id="getattr"), args=[_, ast.Name(id=name), *_]):
            return name in names
    return False


def lines_with(pattern: re.Pattern[str], *, under: str = "") -> list[str]:
    return [
        f"{path.relative_to(ROOT)}:{text.count(chr(10), 0, match.start()) + 1}"
        for path, text in sources().items()
        if path.is_relative_to(ROOT / under)
        for match in pattern.finditer(text)
    ]


def modules_too_short() -> list[str]:
    return [path for path, lines in modules().items() if lines < SHORT]


def modules_too_long() -> list[str]:
    return [path for path, lines in modules().items() if lines > LONG and path not in LONG_FOR_A_REASON]


@cache
def vague_variables() -> list[str]:
    candidates = [
        *((name, node) for name, node in nodes()[ast.Name] if node.id in WORDS),
        *nodes()[ast.arg],
        *nodes()[ast.MatchAs],
    ]
    return [f"{name}:{node.lineno}" for name, node in candidates if bound_name(node) in WORDS]


def functions_too_long() -> list[str]:
    return [function for function, lines in functions().items() if lines > 60]


@cache
def getattr_over_names() -> list[str]:
    calling = {path.relative_to(ROOT).as_posix() for path, text in sources().items() if "getattr(" in text}
    loops = [loop for kind in LOOPS for loop in nodes()[kind]]
    return [f"{name}:{node.lineno}" for name, node in loops if name in calling and loops_over_names(node)]


def rooms_off_the_map() -> list[str]:
    """Rooms that docs/architecture.md does not name, and names there that are no rooms."""
    page = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    table = page.partition("## The rooms")[2].partition("\nDirectly in")[0]
    named = set(re.findall(r"`((?:config|store|triggers|watcher|sdk)/[\w/]+)`", table))
    folders = {path.parent for path in sources() if path.name != "__init__.py"}
    rooms = {folder.relative_to(ROOT).as_posix() for folder in folders if folder.parent != ROOT}
    return sorted(named ^ rooms)


def modules_in_the_root() -> list[str]:
    return [path.name for path in (ROOT / "watcher").glob("*.py") if path.name != "__init__.py"]


def files_in_store() -> list[str]:
    return [path.name for path in (ROOT / "store").glob("*.py")]


def kept_for(rule: str, target: float) -> float:
    return NOT_YET[rule][0] if rule in NOT_YET else target


LISTED: Mapping[str, tuple[Callable[[], list[str]], float]] = {
    "modules over 400 lines": (modules_too_long, 0),
    "rooms that the map in docs/architecture.md does not show": (rooms_off_the_map, 0),
    "files directly in store/": (files_in_store, 14),
    "modules directly in watcher/": (modules_in_the_root, 6),
    "RowMapping in watcher/": (lambda: lines_with(re.compile(r"\bRowMapping\b"), under="watcher"), 0),
    "found, wanted, told, said as variables": (vague_variables, 20),
    "functions over 60 lines": (functions_too_long, 0),
    "banner comments": (lambda: lines_with(BANNER), 0),
    "getattr over a loop of names": (getattr_over_names, 0),
}
MEASURED: Mapping[str, tuple[Callable[[], float], float]] = {
    "modules under 60 lines, in ten": (lambda: 10 * len(modules_too_short()) / len(modules()), 3),
    "median of a function's lines": (lambda: median(functions().values()), 8),
    "90th percentile of a function's lines": (lambda: quantiles(functions().values(), n=10)[-1], 25),
}


@pytest.mark.parametrize("rule", LISTED)
def test_no_more_places_break_the_rule_than_it_allows(rule: str) -> None:
    listed, target = LISTED[rule]
    places = listed()
    assert len(places) <= kept_for(rule, target), places


@pytest.mark.parametrize("rule", MEASURED)
def test_the_measured_shape_is_kept(rule: str) -> None:
    measure, target = MEASURED[rule]
    assert measure() <= kept_for(rule, target)


def test_what_is_kept_by_now_stands_on_the_list_no_more() -> None:
    values = {rule: (len(listed()), target) for rule, (listed, target) in LISTED.items()}
    values |= {rule: (measure(), target) for rule, (measure, target) in MEASURED.items()}
    assert not [rule for rule in NOT_YET if values[rule][0] <= values[rule][1]]
    assert NOT_YET.keys() <= values.keys()


def test_a_long_module_with_a_reason_is_long() -> None:
    assert all(modules()[path] > LONG for path in LONG_FOR_A_REASON)
