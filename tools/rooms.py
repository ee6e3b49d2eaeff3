#!/usr/bin/env python3
"""Draw the daemon's rooms and the imports between them, or print them: `tools/rooms.py --write`, `tools/rooms.py`.

A room is a folder in `watcher/`, except `features`, whose folders can be left out one by one; the root (`app.py`, `guard.py`,
`__main__.py`) is a room, too. An arrow is at least one import. A floor stands above all that it imports. The picture is docs/pictures/rooms.svg; a test compares it with the code.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping
from html import escape
from pathlib import Path
from typing import Final, TypeAlias

REPOSITORY: Final = Path(__file__).resolve().parents[1]
PICTURE: Final = REPOSITORY / "docs/pictures/rooms.svg"
ROOT: Final = "app"
GROUND: Final = frozenset({"errors", "probe"})
"""Modules directly in `watcher/` that import nothing of this project. Every room may import them."""
FEATURES: Final = frozenset({"feature", "features"})
"""What can be left out, and what all of it is named by."""
WIDTH, HEIGHT, GAP, FLOOR, MARGIN = 150, 44, 30, 84, 20

Arrows: TypeAlias = Mapping[str, frozenset[str]]
"""The rooms that each room imports."""


def room_of(module: str) -> str | None:
    """The room of a dotted path in `watcher`. None: no room, but the package itself, the ground or a feature."""
    _, _, inside = module.partition(".")
    name = inside.partition(".")[0]
    if not inside or name in GROUND | FEATURES:
        return None
    return name if (REPOSITORY / "watcher" / name).is_dir() else ROOT


def imported(tree: ast.AST) -> Iterator[str]:
    """Every module of `watcher` that a file imports, also where only a type checker reads it."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (each.name for each in names if each.name.startswith("watcher."))
            case ast.ImportFrom(module="watcher", names=names):
                yield from (f"watcher.{each.name}" for each in names)
            case ast.ImportFrom(module=str(module)) if module.startswith("watcher."):
                yield module


def arrows() -> Arrows:
    """Read the imports between rooms from the code."""
    between: dict[str, set[str]] = {}
    for file in sorted((REPOSITORY / "watcher").rglob("*.py")):
        module = ".".join(file.relative_to(REPOSITORY).with_suffix("").parts).removesuffix(".__init__")
        room = room_of(module)
        if room is None:
            continue
        targets = {room_of(target) for target in imported(ast.parse(file.read_text(encoding="utf-8")))}
        between.setdefault(room, set()).update(target for target in targets if target not in {None, room})
    return {room: frozenset(targets) for room, targets in between.items()}


def floors(between: Arrows) -> list[list[str]]:
    """The rooms by floor, the ground floor first. Raises `ValueError` when rooms import each other in a circle."""
    built: list[list[str]] = []
    left = dict(between)
    while left:
        level = sorted(room for room, targets in left.items() if targets.isdisjoint(left))
        if not level:
            raise ValueError(f"rooms import each other in a circle: {', '.join(sorted(left))}")
        built.append(level)
        left = {room: targets for room, targets in left.items() if room not in level}
    return built


def drawn(between: Arrows) -> str:
    """The picture as SVG: the top floor above, an arrow from each room to what it imports and no other import implies."""
    levels = floors(between)
    width = 2 * MARGIN + max(len(level) * (WIDTH + GAP) - GAP for level in levels)
    height = 2 * MARGIN + (len(levels) - 1) * FLOOR + HEIGHT
    places = {}
    for floor, level in enumerate(reversed(levels)):
        left = (width - len(level) * (WIDTH + GAP) + GAP) / 2
        for column, room in enumerate(level):
            places[room] = left + column * (WIDTH + GAP), MARGIN + floor * FLOOR
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="14">',
        "<title>The rooms of watcher/ and what each imports</title>",
        (
            "<style>rect{fill:#eef3f8;stroke:#4a6785}text{fill:#1b2733}path{stroke:#8299b0;fill:none}"
            "@media (prefers-color-scheme:dark){rect{fill:#22303e;stroke:#8fb0d0}text{fill:#e6edf3}path{stroke:#6f8aa5}}</style>"
        ),
        (
            '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
            '<path d="M0 0L8 4L0 8" /></marker></defs>'
        ),
    ]
    for room in sorted(places):
        x, y = places[room]
        for target in sorted(direct(between, room)):
            to_x, to_y = places[target]
            lines.append(
                f'<path d="M{x + WIDTH / 2:g} {y + HEIGHT}L{to_x + WIDTH / 2:g} {to_y}" marker-end="url(#head)" />'
            )
    for room, (x, y) in sorted(places.items()):
        lines.append(f'<rect x="{x:g}" y="{y}" width="{WIDTH}" height="{HEIGHT}" rx="6" />')
        lines.append(
            f'<text x="{x + WIDTH / 2:g}" y="{y + HEIGHT / 2 + 5:g}" text-anchor="middle">{escape(label(room))}</text>'
        )
    return "\n".join([*lines, "</svg>"]) + "\n"


def direct(between: Arrows, room: str) -> set[str]:
    """The imports of a room that none of its other imports reaches: the arrows that the picture needs."""
    below = {target: reached(between, target) for target in between[room]}
    return {target for target in between[room] if not any(target in below[other] for other in below if other != target)}


def reached(between: Arrows, room: str) -> set[str]:
    return {*between[room], *(far for near in between[room] for far in reached(between, near))}


def label(room: str) -> str:
    return "app.py" if room == ROOT else f"{room}/"


def main() -> None:
    between = arrows()
    if sys.argv[1:] == ["--write"]:
        PICTURE.write_text(drawn(between), encoding="utf-8")
        return
    count = sum(map(len, between.values()))
    print(f"{len(between)} rooms, {count} arrows, {len(floors(between))} floors")  # noqa: T201
    for level in reversed(floors(between)):
        for room in level:
            print(f"  {label(room):16} {' '.join(sorted(between[room]))}")  # noqa: T201


if __name__ == "__main__":
    main()
