"""Tables as wide as the terminal, in color where the terminal has it.

A row that does not fit becomes a few lines, the first of which has its ids; all rows do if hardly one fits. No word is ever broken:
what is longer than the terminal is for the terminal to fold, which copies it in one piece. What is no terminal gets each row in one
line, and states without their marks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from watcher.cli.plain_text import harmless_lines
from watcher.cli.tables import Kind, Properties, Readable, Table
from watcher.host.states import Color, look_of

GAP: Final = 2
INDENT: Final = 4
NARROWEST_TEXT: Final = 20
_ENDLESS: Final = 1_000_000
"""The width, in columns, of output that is no terminal."""
_WORD: Final = re.compile(r"\S+\s*")
COLORS: Final[Mapping[Color, str]] = {"good": "green", "busy": "blue", "calm": "", "warn": "yellow", "bad": "red"}


def render(readable: Readable, console: Console | None = None, style: str = "") -> None:
    """Print it."""
    console = console or Console()
    if not console.is_terminal:
        console.width = _ENDLESS
    match readable:
        case str():
            _print(console, [Text(harmless_lines(readable), style)])
        case Properties():
            _print(console, _property_lines(console, readable))
        case Table() if readable.empty and not readable.rows:
            _print(console, [Text(readable.empty)])
        case Table():
            _print_table(console, readable)


def _print(console: Console, lines: Iterable[Text]) -> None:
    for line in lines:
        console.print(line, soft_wrap=True, highlight=False)


def _print_table(console: Console, table: Table) -> None:
    """Print the rows that fit as a table, and the others where they stand, each as a few lines."""
    kinds = [*table.kinds.values()]
    rows = [[_styled(console, cell, kind) for cell, kind in zip(row, kinds, strict=True)] for row in table.rows]
    wide = {place for place, row in enumerate(rows) if _widths(table.kinds, [row], console.width) is None}
    fitting = [row for place, row in enumerate(rows) if place not in wide]
    widths = _widths(table.kinds, fitting, console.width) if len(wide) < len(rows) or not rows else None
    if widths is None:
        wide = {*range(len(rows))}
    is_first = True
    for is_wide, places in groupby(range(len(rows)), lambda place: place in wide):
        part = [rows[place] for place in places]
        if is_wide or widths is None:
            _print(console, _blocks(console, table, part))
        else:
            console.print(_grid(table, part, widths, with_headings=is_first), highlight=False)
            is_first = False
    if not rows and widths is not None:
        console.print(_grid(table, [], widths, with_headings=True), highlight=False)


def _widths(kinds: Mapping[str, Kind], rows: Sequence[Sequence[Text]], width: int) -> Sequence[int] | None:
    """Return the width of each column, or None when the columns do not fit beside each other."""
    columns = [[heading, *(row[place].plain for row in rows)] for place, heading in enumerate(kinds)]
    natural = [max(map(cell_len, cells)) for cells in columns]
    least = [
        min(most, max(NARROWEST_TEXT, *map(_longest_word, cells))) if kind == "text" else most
        for kind, most, cells in zip(kinds.values(), natural, columns, strict=True)
    ]
    spare = width - sum(least) - GAP * (len(least) - 1)
    if spare < 0:
        return None
    widths = list(least)
    growing = sorted((natural[index] - least[index], index) for index in range(len(least)))
    for rank, (need, index) in enumerate(growing):
        more = min(need, spare // (len(growing) - rank))
        widths[index] += more
        spare -= more
    return widths


def _longest_word(cell: str) -> int:
    return max(map(cell_len, cell.split()), default=0)


def _grid(table: Table, rows: Sequence[Sequence[Text]], widths: Sequence[int], *, with_headings: bool) -> Grid:
    grid = Grid(box=None, padding=(0, GAP, 0, 0), pad_edge=False, header_style="bold", show_header=with_headings)
    for heading, kind, width in zip(table.kinds, table.kinds.values(), widths, strict=True):
        grid.add_column(heading, width=width, no_wrap=kind != "text", overflow="fold")
    for row in rows:
        grid.add_row(*row)
    return grid


def _styled(console: Console, cell: str, kind: str) -> Text:
    """Return the cell; a state on a terminal with its mark and its color."""
    if not kind.startswith("state") or cell == "-" or not console.is_terminal:
        return Text(cell)
    look = look_of(cell, "watcher" if kind == "state of a watcher" else "other")
    return Text(f"{look.mark} {cell}", COLORS[look.color])


def _blocks(console: Console, table: Table, rows: Sequence[Sequence[Text]]) -> Iterator[Text]:
    for row in rows:
        cells = list(zip(table.kinds.items(), row, strict=True))
        head = [cell.plain for (_, kind), cell in cells if kind == "id"]
        yield Text((" " * GAP).join(head), "bold")
        pairs = [
            Text.assemble(f"{heading}: ", cell) for (heading, kind), cell in cells if kind != "id" and cell.plain != "-"
        ]
        for line in _joined(pairs, console.width - INDENT):
            yield Text.assemble(" " * INDENT, line)


def _joined(parts: Sequence[Text], width: int) -> Iterator[Text]:
    """Yield lines with as many parts as fit. A part that is longer than a line continues in the next lines."""
    line: list[Text] = []
    for part in parts:
        if line and sum(other.cell_len + GAP for other in line) + part.cell_len > width:
            yield Text(" " * GAP).join(line)
            line = []
        if part.cell_len > width:
            yield from _wrapped(part, width)
        else:
            line.append(part)
    if line:
        yield Text(" " * GAP).join(line)


def _property_lines(console: Console, properties: Properties) -> Iterator[Text]:
    margin = max(map(cell_len, properties.lines), default=0) + GAP
    for name, value in properties.lines.items():
        lines = _wrapped(
            _styled(console, value, properties.kinds.get(name, "short")), max(console.width - margin, NARROWEST_TEXT)
        )
        for number, line in enumerate(lines):
            yield Text.assemble(name.ljust(margin) if number == 0 else " " * margin, line)


def _wrapped(text: Text, width: int) -> Iterator[Text]:
    """Wrap text between words only; Rich's own wrapping also breaks words."""
    offsets, start = [], 0
    for word in _WORD.finditer(text.plain):
        if word.start() > start and cell_len(text.plain[start : word.end()].rstrip()) > width:
            start = word.start()
            offsets.append(start)
    for line in text.divide(offsets):
        line.rstrip()
        yield line
