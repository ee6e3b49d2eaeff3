#!/usr/bin/env python3
"""Say which room each Python file of the product is in, and which rooms import each other.

`tools/rooms.py` prints sizes, arrows, circles, tables, and what the kernel reaches. `--json` prints the rooms as
`{"kernel": [...], "shared": [...], "root": [...], "features": {"name": [...]}}`, with every file once. `--write` draws
the picture docs/pictures/rooms.svg.

The kernel is what the guarantees rest on. A feature is what can be left out. The root composes both. What is shared
imports nothing of ours but what is shared, so everything may import it. A file below `features/NAME/` is in the feature
NAME by its place, and what is directly in `features/`, the list of names, is the kernel's; `ELSEWHERE` says where the
other files belong. An import counts wherever it stands: in a function, or
where only a type checker reads it.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from html import escape
from itertools import combinations
from pathlib import Path
from typing import Any, Final, TypeAlias

REPOSITORY: Final = Path(__file__).resolve().parents[1]
PICTURE: Final = "docs/pictures/rooms.svg"
PACKAGES: Final = ("config", "store", "triggers", "watcher", "sdk")
KERNEL, SHARED, ROOT = "kernel", "shared", "root"

ELSEWHERE: Final = (
    # The first pattern that fits a file names its room. What none fits is the kernel's.
    ("watcher/app.py", ROOT),
    ("watcher/guard.py", ROOT),
    ("watcher/__main__.py", ROOT),
    ("watcher/cli/__init__.py", ROOT),
    ("watcher/cli/app.py", ROOT),
    ("watcher/cli/program.py", ROOT),
    ("watcher/cli/run.py", ROOT),
    ("triggers/cleaning.py", SHARED),
    ("triggers/errors.py", SHARED),
    ("triggers/explanations.py", SHARED),
    ("triggers/inventories.py", SHARED),
    ("triggers/retries.py", SHARED),
    ("watcher/probe.py", SHARED),
    ("watcher/host/event_words.py", SHARED),
    ("watcher/host/page_paths.py", SHARED),
    ("watcher/host/states.py", SHARED),
    ("sdk/asset_job/sources/*", "readers"),
    ("sdk/asset_job/tables/*", "tables"),
    ("sdk/asset_job/ingest/*", "ingest"),
    ("sdk/asset_job/*", SHARED),
    ("triggers/s3/*", "s3"),
    ("triggers/local_folder/*", "folder"),
    ("triggers/file_scan/*", "files"),
    ("triggers/changes/*", "changes"),
    ("triggers/postgres/*", "rows"),
    ("triggers/iceberg.py", "catalogs"),
    ("store/runs/search.py", "rest"),
    ("watcher/submit/builtin/*", "ingest"),
    ("watcher/submit/spark/*", "spark_submit"),
    ("watcher/submit/spark_submit.py", "spark_submit"),
    ("watcher/serving/api/execution/*", KERNEL),
    ("watcher/serving/api/document/*", KERNEL),
    ("watcher/serving/api/sign_in/*", KERNEL),
    ("watcher/serving/api/shapes/__init__.py", KERNEL),
    ("watcher/serving/api/shapes/assets.py", KERNEL),
    ("watcher/serving/api/shapes/base.py", KERNEL),
    ("watcher/serving/api/shapes/entries.py", KERNEL),
    ("watcher/serving/api/__init__.py", KERNEL),
    ("watcher/serving/api/app.py", KERNEL),
    ("watcher/serving/api/context.py", KERNEL),
    ("watcher/serving/api/errors.py", KERNEL),
    ("watcher/serving/api/event_posts.py", KERNEL),
    ("watcher/serving/api/expiry.py", KERNEL),
    ("watcher/serving/api/guards.py", KERNEL),
    ("watcher/serving/api/probes.py", KERNEL),
    ("watcher/serving/api/problems.py", KERNEL),
    ("watcher/serving/api/streams/*", KERNEL),
    ("watcher/serving/api/parameters.py", KERNEL),
    ("watcher/serving/api/writes.py", KERNEL),
    ("watcher/serving/api/*", "rest"),
)
"""Rooms of the files that their place does not tell. Files leave this table when they move below `features/NAME/`."""

ENTRIES: Final = (
    "watcher.triggerer.supervisor",
    "watcher.triggerer.group_commit",
    "watcher.scheduling.planning.scheduler",
    "watcher.scheduling.tries.dispatcher",
    "watcher.scheduling.tries.followed_try",
    "watcher.host.leader_election",
    "watcher.submit.base",
    "watcher.operations.cleanup",
    "store.processes.cleanup",
    "store.database.migrations",
)
"""The modules from which the kernel's import closure is counted."""

Graph: TypeAlias = Mapping[str, frozenset[str]]
"""What each node leads to."""


@dataclass(frozen=True, kw_only=True, order=True)
class Arrow:
    """A module that imports another. `types_only`: only a type checker reads the import."""

    source: str
    target: str
    types_only: bool = False

    def __str__(self) -> str:
        return f"{self.source} -> {self.target}"


@dataclass(frozen=True)
class Product:
    """The Python files of the product in a tree, their rooms and their imports."""

    repository: Path

    @cached_property
    def files(self) -> Mapping[str, str]:
        """The files, relative to the repository, by their dotted path."""
        files = (file for package in PACKAGES for file in sorted((self.repository / package).rglob("*.py")))
        names = (file.relative_to(self.repository).as_posix() for file in files)
        return {module_of(name): name for name in names if not name.startswith("sdk/build/")}

    @cached_property
    def trees(self) -> Mapping[str, ast.Module]:
        return {module: ast.parse(self.text(name)) for module, name in self.files.items()}

    def text(self, name: str) -> str:
        return (self.repository / name).read_text(encoding="utf-8")

    @cached_property
    def rooms(self) -> Mapping[str, str]:
        """The room of each module."""
        return {module: room_of(name) for module, name in self.files.items()}

    @cached_property
    def features(self) -> Sequence[str]:
        return sorted({*self.rooms.values()} - {KERNEL, SHARED, ROOT})

    @cached_property
    def arrows(self) -> Sequence[Arrow]:
        """Every import of one module of ours by another."""
        return sorted({arrow for module in self.files for arrow in self._arrows_from(module)})

    def _arrows_from(self, module: str) -> Iterator[Arrow]:
        package = module if self.files[module].endswith("/__init__.py") else module.rpartition(".")[0]
        typed = {
            id(node)
            for block in ast.walk(self.trees[module])
            if isinstance(block, ast.If) and ast.unparse(block.test).endswith("TYPE_CHECKING")
            for part in block.body
            for node in ast.walk(part)
        }
        targets: dict[str, bool] = {}
        for node in ast.walk(self.trees[module]):
            for target in imported(node, package, self.files):
                targets[target] = targets.get(target, True) and id(node) in typed
        for target, types_only in targets.items():
            if target != module:
                yield Arrow(source=module, target=target, types_only=types_only)

    @cached_property
    def imports(self) -> Graph:
        """The modules that each module imports."""
        graph: dict[str, set[str]] = {module: set() for module in self.files}
        for arrow in self.arrows:
            graph[arrow.source].add(arrow.target)
        return {module: frozenset(targets) for module, targets in graph.items()}

    def between(self, sources: Iterable[str], targets: Iterable[str]) -> Sequence[Arrow]:
        """The arrows from one of these rooms to another one of those."""
        starts, ends = {*sources}, {*targets}
        rooms = self.rooms
        return [
            arrow
            for arrow in self.arrows
            if rooms[arrow.source] in starts
            and rooms[arrow.target] in ends
            and rooms[arrow.source] != rooms[arrow.target]
        ]

    @cached_property
    def needs(self) -> Graph:
        """The features that each feature declares that it needs."""
        pages = {feature: self.files.get(f"watcher.features.{feature}.feature") for feature in self.features}
        return {
            feature: frozenset() if page is None else declared_needs(self.text(page)) for feature, page in pages.items()
        }

    @cached_property
    def undeclared(self) -> Sequence[Arrow]:
        """The imports that the rules forbid.

        They lead from the kernel to a feature or to the root, from what is shared to anything else, from a feature to the
        root, or from a feature to one that it does not need.
        """
        base = self.between([KERNEL, SHARED], [ROOT, *self.features])
        upwards = [*self.between([SHARED], [KERNEL]), *self.between(self.features, [ROOT])]
        others = [
            arrow
            for arrow in self.between(self.features, self.features)
            if self.rooms[arrow.target] not in reached(self.needs, [self.rooms[arrow.source]])
        ]
        return sorted([*base, *upwards, *others])

    @cached_property
    def subjects(self) -> Graph:
        """The rooms that each room imports."""
        graph: dict[str, set[str]] = {room: set() for room in self.rooms.values()}
        for arrow in self.arrows:
            graph[self.rooms[arrow.source]].add(self.rooms[arrow.target])
        return {room: frozenset(targets - {room}) for room, targets in graph.items()}

    @cached_property
    def closure(self) -> frozenset[str]:
        """The modules that importing the kernel's entries imports, with the packages that they are in."""
        with_packages = {
            module: frozenset({*targets, *packages_of(module, self.files)}) for module, targets in self.imports.items()
        }
        entries = [entry for entry in ENTRIES if entry in self.files]
        return frozenset({*entries, *reached(with_packages, entries)})

    @cached_property
    def tables(self) -> Mapping[str, Sequence[str]]:
        """The tables of the metadata database by the room whose file declares them. Imports the product's declarations."""
        owners = {
            node.args[0].value: self.rooms[module]
            for module, tree in self.trees.items()
            if module.startswith("store.features.")
            for node in ast.walk(tree)
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("table") and node.args
            if isinstance(node.args[0], ast.Constant) and isinstance(node.args[0].value, str)
        }
        names = importlib.import_module("store.database.schema").metadata.tables
        by_room: dict[str, list[str]] = {}
        for name in sorted({*names, *owners}):
            by_room.setdefault(owners.get(name, KERNEL), []).append(name)
        return by_room

    def as_json(self) -> dict[str, Any]:
        """Every file once: in the kernel, shared, in the root, or in one feature."""
        by_room = {
            room: [self.files[module] for module in self.files if self.rooms[module] == room]
            for room in (KERNEL, SHARED, ROOT, *self.features)
        }
        return {
            **{room: by_room[room] for room in (KERNEL, SHARED, ROOT)},
            "features": {feature: by_room[feature] for feature in self.features},
        }


def module_of(name: str) -> str:
    """The dotted path of a file of the product."""
    return ".".join(Path(name.removeprefix("sdk/")).with_suffix("").parts).removesuffix(".__init__")


def room_of(name: str) -> str:
    """The room of a file: by its place, else by the table."""
    if by_place := re.match(r"(?:config|store|triggers|watcher)/features/(\w+)/", name):
        return by_place[1]
    if re.match(r"\w+/features/__init__\.py", name):
        return KERNEL
    if re.match(r"(?:config|store|triggers|watcher)/shared/", name):
        return SHARED
    return next((room for pattern, room in ELSEWHERE if fnmatchcase(name, pattern)), KERNEL)


def imported(node: ast.AST, package: str, known: Mapping[str, str]) -> Iterator[str]:
    """Every module of ours that a statement imports: a name of a package is the module of that name, if there is one."""
    match node:
        case ast.Import(names=names):
            yield from (each.name for each in names if each.name in known)
        case ast.ImportFrom(module=base, names=names, level=level):
            above = package.split(".")[: len(package.split(".")) - level + 1] if level else []
            source = ".".join(filter(None, [*above, base]))
            for each in names:
                member = f"{source}.{each.name}"
                if member in known or source in known:
                    yield member if member in known else source


def packages_of(module: str, known: Mapping[str, str]) -> Iterator[str]:
    """The packages that importing a module imports first."""
    while module := module.rpartition(".")[0]:
        if module in known:
            yield module


def declared_needs(page: str) -> frozenset[str]:
    """The features that a `feature.py` names in `Feature(needs=...)`."""
    return frozenset(
        part.value
        for node in ast.walk(ast.parse(page))
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("Feature")
        for keyword in node.keywords
        if keyword.arg == "needs"
        for part in ast.walk(keyword.value)
        if isinstance(part, ast.Constant) and isinstance(part.value, str)
    )


def reached(graph: Graph, starts: Iterable[str]) -> set[str]:
    """Everything that these nodes lead to, at once or by others. A node itself only if a circle leads back to it."""
    seen: set[str] = set()
    ahead = {*starts}
    while ahead:
        ahead = {target for node in ahead for target in graph.get(node, ())} - seen
        seen |= ahead
    return seen


def circles(graph: Graph) -> list[list[str]]:
    """The circles of a graph: the largest sets of nodes that all lead to each other."""
    below = {node: reached(graph, [node]) for node in graph}
    in_circles = {node for node in graph if node in below[node]}
    groups = {frozenset(other for other in below[node] if node in below[other]) for node in in_circles}
    return sorted(sorted(group) for group in groups)


# The picture.

BOX, HEIGHT, GAP, FLOOR, MARGIN, COLUMNS = 102, 36, 14, 80, 20, 10
Slots: TypeAlias = list[list[str]]
"""The features by row, the lowest first, and by column; an empty text is a free slot."""


def floors(needs: Graph) -> list[list[str]]:
    """The features by floor, the ground floor first. Raises `ValueError` when features need each other in a circle."""
    built: list[list[str]] = []
    left = dict(needs)
    while left:
        level = sorted(feature for feature, targets in left.items() if targets.isdisjoint(left))
        if not level:
            raise ValueError(f"features need each other in a circle: {', '.join(sorted(left))}")
        built.append(level)
        left = {feature: targets for feature, targets in left.items() if feature not in level}
    return built


def direct(needs: Graph, feature: str) -> set[str]:
    """The needs of a feature that none of its other needs implies: the arrows that the picture shows."""
    return {target for target in needs[feature] if target not in reached(needs, needs[feature] - {target})}


def arranged(needs: Graph) -> Slots:
    """The features in rows: those without any arrow in the lowest ones, then floor by floor.

    Within a row they are exchanged, also with free slots, as long as that makes the arrows shorter and lets fewer of them
    cross each other or a box.
    """
    needed = {target for targets in needs.values() for target in targets}
    alone = sorted(feature for feature in needs if not needs[feature] and feature not in needed)
    levels = [alone, *floors({feature: targets for feature, targets in needs.items() if feature not in alone})]
    rows = [row for level in levels for row in _divided(level)]
    shown = [(feature, target) for feature in sorted(needs) for target in sorted(direct(needs, feature))]
    cost, better = _cost(rows, shown), True
    while better:
        better = False
        for row in rows:
            for one, other in combinations(range(COLUMNS), 2):
                row[one], row[other] = row[other], row[one]
                if (changed := _cost(rows, shown)) < cost:
                    cost, better = changed, True
                else:
                    row[one], row[other] = row[other], row[one]
    return rows


def _divided(level: Sequence[str]) -> Iterator[list[str]]:
    """Rows of about the same length, each in the middle of its slots."""
    count = -(-len(level) // COLUMNS)
    for number in range(count):
        row = list(level[number::count])
        before = (COLUMNS - len(row)) // 2
        yield [""] * before + row + [""] * (COLUMNS - len(row) - before)


def _cost(rows: Slots, arrows: Sequence[tuple[str, str]]) -> float:
    """How hard the arrows are to follow: their lengths sideways, and more for each crossing and each box in the way."""
    at = {feature: (number, column) for number, row in enumerate(rows) for column, feature in enumerate(row) if feature}
    lines = [(*at[feature], *at[target]) for feature, target in arrows]
    cost = 0.0
    for row, column, to_row, to_column in lines:
        slope = (to_column - column) / (row - to_row)
        cost += abs(to_column - column)
        for between in range(to_row + 1, row):
            x = column + slope * (row - between)
            cost += 6 * sum(
                abs(x - other) < BOX / (BOX + GAP) for other, feature in enumerate(rows[between]) if feature
            )
    for (row, column, to_row, to_column), (row2, column2, to_row2, to_column2) in combinations(lines, 2):
        if (row, to_row) == (row2, to_row2):
            cost += 2 * ((column - column2) * (to_column - to_column2) < 0)
    return cost


def drawn(needs: Graph) -> str:
    """The picture as SVG: the root above, the features with an arrow to each that they need, the kernel below them all."""
    rows = [[ROOT], *reversed(arranged(needs)), [KERNEL], [SHARED]]
    inside = COLUMNS * (BOX + GAP) - GAP
    width, height = inside + 2 * MARGIN, 2 * MARGIN + (len(rows) - 1) * FLOOR + HEIGHT
    boxes = {}
    for floor, row in enumerate(rows):
        wide = BOX if len(row) > 1 else inside
        for column, room in enumerate(row):
            if room:
                boxes[room] = MARGIN + column * (BOX + GAP), MARGIN + floor * FLOOR, wide
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="14">',
        "<title>The kernel, the features above it, and which feature needs which</title>",
        (
            "<style>rect{fill:#eef3f8;stroke:#4a6785}.base{fill:#dbe6f1}text{fill:#1b2733}path{stroke:#8299b0;fill:none}"
            "@media (prefers-color-scheme:dark){rect{fill:#22303e;stroke:#8fb0d0}.base{fill:#2d4054}text{fill:#e6edf3}"
            "path{stroke:#6f8aa5}}</style>"
        ),
        (
            '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
            '<path d="M0 0L8 4L0 8" /></marker></defs>'
        ),
    ]
    for feature in sorted(needs):
        x, y, _ = boxes[feature]
        for target in sorted(direct(needs, feature)):
            to_x, to_y, _ = boxes[target]
            lines.append(
                f'<path d="M{x + BOX / 2:g} {y + HEIGHT}L{to_x + BOX / 2:g} {to_y}" marker-end="url(#head)" />'
            )
    for room, (x, y, wide) in sorted(boxes.items()):
        kind = "" if room in needs else ' class="base"'
        lines.append(f'<rect{kind} x="{x}" y="{y}" width="{wide}" height="{HEIGHT}" rx="6" />')
        lines.append(
            f'<text x="{x + wide / 2:g}" y="{y + HEIGHT / 2 + 5:g}" text-anchor="middle">{escape(LABELS.get(room, room))}</text>'
        )
    return "\n".join([*lines, "</svg>"]) + "\n"


LABELS: Final = {
    ROOT: "root: composes the kernel and the features of the list",
    KERNEL: "kernel: what the guarantees rest on; imports no feature",
    SHARED: "shared: imports nothing of ours",
}


# The report.


def report(product: Product) -> Iterator[str]:
    """The lines that the program prints."""
    yield f"{'room':14} {'files':>6} {'lines':>7} {'tables':>7}"
    files = Counter(product.rooms.values())
    lines = Counter[str]()
    for module, name in product.files.items():
        lines[product.rooms[module]] += len(product.text(name).splitlines())
    for room in (KERNEL, SHARED, ROOT, *sorted(product.features, key=lambda feature: -lines[feature])):
        yield f"{room:14} {files[room]:6} {lines[room]:7} {len(product.tables.get(room, ())):7}"
    yield f"{'all':14} {files.total():6} {lines.total():7} {sum(map(len, product.tables.values())):7}"
    yield ""
    yield from _closure(product)
    base = product.between([KERNEL, SHARED], [ROOT, *product.features])
    to_features = [arrow for arrow in base if product.rooms[arrow.target] != ROOT]
    yield f"arrows from the kernel to features: {len(to_features)} (and {len(base) - len(to_features)} to the root)"
    yield from _grouped(product, base, every=True)
    among = product.between(product.features, [ROOT, *product.features])
    pairs = {(product.rooms[arrow.source], product.rooms[arrow.target]) for arrow in among}
    yield f"arrows between features: {len(among)} in {len(pairs)} pairs"
    yield from _grouped(product, among, every=False)
    yield f"not declared: {len(product.undeclared)}"
    yield from _circles("files", circles(product.imports))
    yield from _circles("subjects", circles(product.subjects))
    yield f"tables of the kernel: {', '.join(product.tables.get(KERNEL, ()))}"


def _closure(product: Product) -> Iterator[str]:
    reached_rooms = Counter(product.rooms[module] for module in product.closure)
    lines = sum(len(product.text(product.files[module]).splitlines()) for module in product.closure)
    yield f"import closure of the kernel's entries: {len(product.closure)} files, {lines} lines"
    yield f"  of them: {', '.join(f'{room} {count}' for room, count in reached_rooms.most_common())}"
    yield ""


def _grouped(product: Product, arrows: Sequence[Arrow], *, every: bool) -> Iterator[str]:
    by_pair: dict[tuple[str, str], list[Arrow]] = {}
    for arrow in arrows:
        by_pair.setdefault((product.rooms[arrow.source], product.rooms[arrow.target]), []).append(arrow)
    for (source, target), group in sorted(by_pair.items()):
        declared = target in product.needs.get(source, ())
        yield f"  {source} -> {target}: {len(group)}{'' if declared else ', not declared'}"
        for arrow in group if every or not declared else []:
            yield f"      {arrow}{' (types)' if arrow.types_only else ''}"
    yield ""


def _circles(of: str, groups: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"circles by {of}: {len(groups)}"
    for group in groups:
        yield f"  {len(group)}: {', '.join(group)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--json", action="store_true", help="print the rooms and their files")
    parser.add_argument("--write", action="store_true", help=f"draw {PICTURE}")
    arguments = parser.parse_args()
    product = Product(REPOSITORY)
    if arguments.json:
        print(json.dumps(product.as_json(), indent=2))
    elif arguments.write:
        (REPOSITORY / PICTURE).write_text(drawn(product.needs), encoding="utf-8")
    else:
        sys.path[:0] = [str(REPOSITORY)]
        print("\n".join(report(product)))


if __name__ == "__main__":
    main()
