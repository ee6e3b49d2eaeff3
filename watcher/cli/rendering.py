"""Tables as wide as the terminal, in color where the terminal has it.

A row that does not fit becomes a few lines, the first of which has its ids. No word is ever broken: what is longer than
the terminal is for the terminal to fold, which copies it in one piece. What is no terminal gets each row in one line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from watcher.cli.plain_text import harmless_lines
from watcher.cli.tables import Properties, Readable, Table

GAP: Final = 2
INDENT: Final = 4
NARROWEST_TEXT: Final = 20
_ENDLESS: Final = 1_000_000
"""The width, in columns, of output that is no terminal."""
_WORD: Final = re.compile(r"\S+\s*")
_GOOD, _BAD, _PENDING = "green", "red", "yellow"
STYLES: Final = {
    **dict.fromkeys(("success", "running", "healthy", "ok"), _GOOD),
    **dict.fromkeys(("failed", "failing", "blocked", "unhealthy", "error", "late"), _BAD),
    **dict.fromkeys(("queued", "paused", "unstable", "waiting", "stopped", "up_for_retry", "warning"), _PENDING),
}


def render(readable: Readable, console: Console | None = None, style: str = "") -> None:
    """Print it."""
    console = console or Console()
    if not console.is_terminal:
        console.width = _ENDLESS
    match readable:
        case str():
            lines: Iterator[Text] = iter([Text(harmless_lines(readable), style)])
        case Properties():
            lines = _property_lines(console, readable)
        case Table() if (widths := _widths(readable, console.width)) is not None:
            console.print(_grid(readable, widths), highlight=False)
            return
        case Table():
            lines = _blocks(console, readable)
    for line in lines:
        console.print(line, soft_wrap=True, highlight=False)


def _widths(table: Table, width: int) -> Sequence[int] | None:
    """Return the width of each column, or None when the columns do not fit beside each other."""
    columns = list(zip(table.kinds, *table.rows, strict=True))
    natural = [max(map(cell_len, cells)) for cells in columns]
    least = [
        min(most, max(NARROWEST_TEXT, *map(_longest_word, cells))) if kind == "text" else most
        for kind, most, cells in zip(table.kinds.values(), natural, columns, strict=True)
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


def _grid(table: Table, widths: Sequence[int]) -> Grid:
    grid = Grid(box=None, padding=(0, GAP, 0, 0), pad_edge=False, header_style="bold")
    for heading, kind, width in zip(table.kinds, table.kinds.values(), widths, strict=True):
        grid.add_column(heading, width=width, no_wrap=kind != "text", overflow="fold")
    for row in table.rows:
        grid.add_row(*(_styled(cell, kind) for cell, kind in zip(row, table.kinds.values(), strict=True)))
    return grid


def _styled(cell: str, kind: str) -> Text:
    return Text(cell, STYLES.get(cell, "") if kind == "short" else "")


def _blocks(console: Console, table: Table) -> Iterator[Text]:
    for row in table.rows:
        cells = list(zip(table.kinds.items(), row, strict=True))
        head = [cell for (_, kind), cell in cells if kind == "id"]
        yield Text((" " * GAP).join(head), "bold")
        pairs = [
            Text.assemble(f"{heading}: ", _styled(cell, kind))
            for (heading, kind), cell in cells
            if kind != "id" and cell != "-"
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
        lines = _wrapped(_styled(value, "short"), max(console.width - margin, NARROWEST_TEXT))
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
