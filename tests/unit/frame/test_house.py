"""The rules of the code's structure and words, read from the sources of the four packages and the job SDK.

Nothing here caps a length: `tools/house.py` prints the lengths and the complexity, for a reader to judge. The migrations
are not read, since a released one is never edited.
"""

import ast
import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import house
import pytest

ROOT = Path(__file__).parents[3]
PACKAGES = ("config", "store", "triggers", "watcher", "sdk")
MIGRATIONS = ROOT / "store/database/migrations"
SAME_NAME_FOR_A_REASON: Mapping[str, str] = {
    "AssetScope": "a public name of store backends, and of worker-side backends in the SDK, which imports nothing of ours",
    "InvalidValue": "a public error of the store, and of the SDK, which imports nothing of ours",
    "NeverExpire": "a public type of store backends, and of the SDK, which imports nothing of ours",
    "NotFound": "a public error of the store, and of the SDK, which imports nothing of ours",
    "Progress": "a public type of submitters, and a schema of the Execution API",
    "RejectedItem": "a public type of triggers, and a schema of the REST API",
}
"""Class names that mean several classes, each with its reason."""
SLEEPS = {"anyio.sleep", "asyncio.sleep", "time.sleep", "sleep"}
NEVER_NEGATIVE: Mapping[str, str] = {
    "triggers/shared/delays.py": "the one place that bounds a delay",
    "sdk/asset_job/backends.py": "one of a few constants",
    "sdk/asset_job/client.py": "a constant that is doubled; the SDK imports nothing of ours",
    "watcher/features/kubernetes/wrapper.py": "a part of the lease; in the pod it imports nothing of ours",
}
"""Files that sleep for something computed without `sleep_for`, each with its reason."""
WORDS = {"found", "wanted", "told", "said"}
BANNER = re.compile(r"^ *# *[-=*#]{3,}", re.MULTILINE)


@cache
def sources() -> Mapping[Path, str]:
    paths = (path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py")))
    return {path: path.read_text(encoding="utf-8") for path in paths if not path.is_relative_to(MIGRATIONS)}


@cache
def trees() -> Mapping[Path, ast.Module]:
    return {path: ast.parse(text) for path, text in sources().items()}


BEGINNINGS = re.compile(r"(Of|As|Who|Until|From|Unless|By)\b")
"""Words that begin a docstring which goes on with the name above it."""
LAST_WORDS = {"Pure", "Blocking", "Blocks"}
"""Words that are a sentence of a docstring's first paragraph by themselves."""
LOOPS = (ast.For, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@cache
def nodes() -> Mapping[type[ast.AST], list[tuple[str, Any]]]:
    """The nodes that the rules ask for, by type, each with its place."""
    by_type: dict[type[ast.AST], list[tuple[str, Any]]] = {
        kind: [] for kind in (ast.Name, ast.arg, ast.MatchAs, *LOOPS)
    }
    for path, tree in trees().items():
        name = path.relative_to(ROOT).as_posix()
        for node in ast.walk(tree):
            if (listed := by_type.get(type(node))) is not None:
                listed.append((name, node))
    return by_type


@cache
def classes() -> Mapping[str, list[tuple[str, ast.ClassDef]]]:
    """Every class definition by its name, each with its file."""
    by_name: dict[str, list[tuple[str, ast.ClassDef]]] = {}
    for path, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                by_name.setdefault(node.name, []).append((path.relative_to(ROOT).as_posix(), node))
    return by_name


def classes_of_one_name() -> list[str]:
    several = {name: [file for file, _ in places] for name, places in classes().items() if len(places) > 1}
    return [f"{name}: {', '.join(files)}" for name, files in several.items() if name not in SAME_NAME_FOR_A_REASON]


def untyped_constructions() -> list[str]:
    """Calls of our own classes with `**`, which no type checker sees through."""
    ours = {*classes(), "cls"}
    return [
        f"{path.relative_to(ROOT).as_posix()}:{node.lineno} {ast.unparse(node.func)}"
        for path, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and any(keyword.arg is None for keyword in node.keywords)
        if ast.unparse(node.func).rpartition(".")[2] in ours
    ]


@cache
def docstrings() -> list[tuple[str, str]]:
    """Every docstring, also of attributes, with its place."""
    return [
        (f"{path.relative_to(ROOT).as_posix()}:{node.lineno}", node.value.value)
        for path, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    ]


def docstrings_that_lean_on_a_name() -> list[str]:
    """Docstrings that begin with a word that needs the name above it."""
    return [f"{place} {text.splitlines()[0]}" for place, text in docstrings() if BEGINNINGS.match(text)]


def cut_docstrings() -> list[str]:
    """Docstrings whose first paragraph stops in mid sentence, as when a tool divides it at a line's end."""
    return [f"{place} {text.splitlines()[0]}" for place, text in docstrings() if is_cut(text)]


def is_cut(text: str) -> bool:
    first = " ".join(text.partition("\n\n")[0].split())
    last = re.search(r"[.] (\w+)[.]$", first)
    if last is not None and last[1] not in LAST_WORDS:
        return True
    return (
        not (first.endswith((".", ":", "?", "!", "…")) or first.split()[-1].startswith("https://"))
        or "Https://" in text
    )


def module_name(path: Path) -> str:
    relative = path.relative_to(ROOT / "sdk" if path.is_relative_to(ROOT / "sdk") else ROOT)
    return ".".join(relative.with_suffix("").parts).removesuffix(".__init__")


@cache
def imports() -> Mapping[str, set[str]]:
    """The modules of ours that each module imports, also inside functions and where only a type checker reads it."""
    known = {module_name(path) for path in sources()}
    graph: dict[str, set[str]] = {}
    for path, tree in trees().items():
        name = module_name(path)
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        targets = graph.setdefault(name, set())
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                targets |= {alias.name for alias in node.names} & known
            elif isinstance(node, ast.ImportFrom):
                above = package.rsplit(".", node.level - 1)[0] if node.level > 1 else package
                source = ".".join(filter(None, [above if node.level else "", node.module]))
                members = {f"{source}.{alias.name}" for alias in node.names}
                targets |= members & known or ({source} & known)
        targets.discard(name)
    return graph


def import_circles() -> list[str]:
    """Modules that reach themselves by imports."""
    return [name for name in imports() if name in reached(name)]


def reached(name: str) -> set[str]:
    """The modules that importing this one imports, directly or not."""
    graph, seen, ahead = imports(), set[str](), {name}
    while ahead:
        ahead = {target for module in ahead for target in graph[module]} - seen
        seen |= ahead
    return seen


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


@cache
def vague_variables() -> list[str]:
    candidates = [
        *((name, node) for name, node in nodes()[ast.Name] if node.id in WORDS),
        *nodes()[ast.arg],
        *nodes()[ast.MatchAs],
    ]
    return [f"{name}:{node.lineno}" for name, node in candidates if bound_name(node) in WORDS]


@cache
def getattr_over_names() -> list[str]:
    calling = {path.relative_to(ROOT).as_posix() for path, text in sources().items() if "getattr(" in text}
    loops = [loop for kind in LOOPS for loop in nodes()[kind]]
    return [f"{name}:{node.lineno}" for name, node in loops if name in calling and loops_over_names(node)]


def rooms_off_the_map() -> list[str]:
    """Rooms that docs/architecture.md does not name, and names there that are no rooms. All features of a package are one."""
    page = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    table = page.partition("## The rooms")[2].partition("\nDirectly in")[0]
    named = set(re.findall(r"`((?:config|store|triggers|watcher|sdk)/[\w/]+)`", table))
    folders = {path.parent for path in sources() if path.name != "__init__.py"}
    rooms = {folder.relative_to(ROOT).as_posix() for folder in folders if folder.parent != ROOT}
    return sorted({*map(place_on_the_map, named)} ^ {*map(place_on_the_map, rooms)})


def place_on_the_map(room: str) -> str:
    return re.sub("^([a-z]+/features)/.*", r"\1", room)


def modules_in_the_root() -> list[str]:
    return [path.name for path in (ROOT / "watcher").glob("*.py") if path.name != "__init__.py"]


def files_in_store() -> list[str]:
    return [path.name for path in (ROOT / "store").glob("*.py")]


def unbounded_delays() -> list[str]:
    """Return the sleeps whose delay is computed and could be below zero, which anyio and `time` refuse by an error."""
    return [
        f"{name}:{line}"
        for path, tree in trees().items()
        if (name := path.relative_to(ROOT).as_posix()) not in NEVER_NEGATIVE
        for line in computed_sleeps(tree)
    ]


def computed_sleeps(tree: ast.AST) -> list[int]:
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) in SLEEPS)
    return [call.lineno for call in calls if not all(map(is_constant, call.args))]


def is_constant(node: ast.AST) -> bool:
    """Return whether an expression is a number, a constant of a module, or a positive combination of these."""
    match node:
        case ast.Constant():
            return True
        case ast.Name(name):
            return name.isupper()
        case ast.Call(func=ast.Attribute(value=value, attr="total_seconds")):
            return is_constant(value)
        case ast.BinOp(left=left, op=ast.Mult() | ast.Div() | ast.Add(), right=right):
            return is_constant(left) and is_constant(right)
        case ast.IfExp(body=body, orelse=orelse):
            return is_constant(body) and is_constant(orelse)
    return False


LISTED: Mapping[str, tuple[Callable[[], list[str]], int]] = {
    "class names that mean several classes": (classes_of_one_name, 0),
    "classes of ours made by **": (untyped_constructions, 0),
    "modules in a circle of imports": (import_circles, 0),
    "docstrings that lean on the name above": (docstrings_that_lean_on_a_name, 0),
    "docstrings that were cut": (cut_docstrings, 0),
    "rooms that the map in docs/architecture.md does not show": (rooms_off_the_map, 0),
    "files directly in store/": (files_in_store, 14),
    "modules directly in watcher/": (modules_in_the_root, 8),
    "RowMapping in watcher/": (lambda: lines_with(re.compile(r"\bRowMapping\b"), under="watcher"), 0),
    "found, wanted, told, said as variables": (vague_variables, 20),
    "sleeps for a computed time without sleep_for": (unbounded_delays, 0),
    "banner comments": (lambda: lines_with(BANNER), 0),
    "getattr over a loop of names": (getattr_over_names, 0),
}


@pytest.mark.parametrize("rule", LISTED)
def test_no_more_places_break_the_rule_than_it_allows(rule: str) -> None:
    listed, allowed = LISTED[rule]
    places = listed()
    assert len(places) <= allowed, places


@pytest.mark.parametrize(
    ("statement", "computed"),
    [
        ("await anyio.sleep(0.01)", False),
        ("await anyio.sleep(EVERY / 2)", False),
        ("time.sleep(_EVERY.total_seconds())", False),
        ("await anyio.sleep(LOOK_EVERY if rules else WITHOUT_RULES)", False),
        ("await anyio.sleep(due - anyio.current_time())", True),
        ("await anyio.sleep(END - START)", True),
        ("await anyio.sleep(pause)", True),
        ("time.sleep(min(LONGEST, left))", True),
    ],
)
def test_a_sleep_for_a_computed_time_is_seen(statement: str, computed: bool) -> None:
    assert bool(computed_sleeps(ast.parse(f"async def _():\n    {statement}"))) == computed


@pytest.mark.parametrize(
    ("docstring", "cut"),
    [
        ("Why it failed. None.\n\nIt did not fail.", True),
        ("The outcome. An error: nothing was written. None.\n\nNothing either.", True),
        ("Why it failed; None\n\nif it did not.", True),
        ("Meanings of codes.\n\nHttps://example.org/codes", True),
        ("The moment of the next check. None: never.", False),
        ("What a pod means for its try. Pure.", False),
        ("Return the answer: 503.\n\nhttps://example.org/codes", False),
        ("The exceptions.\n\nError\n├── Gone", False),
    ],
)
def test_a_cut_docstring_is_seen(docstring: str, cut: bool) -> None:
    assert is_cut(docstring) is cut


def test_sizes_are_read_of_files_that_define_something(tmp_path: Path) -> None:
    (tmp_path / "__init__.py").write_text('"""A package."""\n')
    (tmp_path / "module.py").write_text("def sum_of(a, b):\n    return a + b if a and b else 0\n\n\nANSWER = 42\n")
    sizes = house.sizes_of(sorted(tmp_path.iterdir()), tmp_path)
    assert sizes.files == [5]
    assert sizes.functions == [house.Function(file="module.py", line=1, name="sum_of", lines=2, complexity=3)]


@pytest.mark.parametrize(
    ("name", "new"),
    [
        ("store/keys.py", "store/keys.py"),
        ("store/keys.py => triggers/keys.py", "triggers/keys.py"),
        ("store/{runs => features/replay}/replays.py", "store/features/replay/replays.py"),
        ("store/{ => features}/replays.py", "store/features/replays.py"),
    ],
)
def test_a_renamed_file_is_known_by_its_new_name(name: str, new: str) -> None:
    assert house.new_name(name) == new
