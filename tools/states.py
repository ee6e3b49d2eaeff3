"""Draw the pictures of states in docs/pictures from the moves that the modules name which hold the states.

`python -m tools.states` draws all of them anew. In a picture the states stand in a row, in the order in which the moves name them.
Each move is a line of its own with its reason: above the row where it leads on, below it where it leads back.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Final

REPOSITORY: Final = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(REPOSITORY)]

from store.fates import MOVES_AT_JOBS, MOVES_OF_ITEMS, Move  # noqa: E402  the repository is on the path now
from store.runs.runs import MOVES_OF_RUNS  # noqa: E402
from watcher.features.partitions.waiting import MOVES_OF_PARTITIONS  # noqa: E402

PICTURES: Final[Mapping[str, tuple[str, Sequence[Move]]]] = {
    "docs/pictures/states-of-items.svg": ("The states of a file, a row or a change", MOVES_OF_ITEMS),
    "docs/pictures/states-of-events.svg": ("The states of an event at a job", MOVES_AT_JOBS),
    "docs/pictures/states-of-runs.svg": ("The states of a run", MOVES_OF_RUNS),
    "docs/pictures/states-of-partitions.svg": (
        "The states of a partition at a job that takes each by itself",
        MOVES_OF_PARTITIONS,
    ),
}
"""The title and the moves of each picture."""
START: Final = 36
"""The width of the box without a name in which everything begins."""
BOX: Final = 118
GAP: Final = 22
HEIGHT: Final = 30
TRACK: Final = 26
"""The height that a move takes above or below the row of states."""
MARGIN: Final = 14
LETTER: Final = 6.4
"""The width of a letter of a move's reason, about."""
_STYLE: Final = (
    "<style>rect{fill:#eef3f8;stroke:#4a6785}.start{fill:#4a6785}text{fill:#1b2733}.why{font-size:12px;stroke:#fff;stroke-width:4px;"
    "paint-order:stroke}path{stroke:#8299b0;fill:none}"
    "@media (prefers-color-scheme:dark){rect{fill:#22303e;stroke:#8fb0d0}.start{fill:#8fb0d0}text{fill:#e6edf3}"
    ".why{stroke:#0d1117}path{stroke:#6f8aa5}}</style>"
)
_HEAD: Final = (
    '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    '<path d="M0 0L8 4L0 8" /></marker></defs>'
)


@dataclass(frozen=True, kw_only=True)
class Line:
    """A move between two columns. Column 0 is where everything begins."""

    start: int
    end: int
    reason: str

    @property
    def leads_on(self) -> bool:
        return self.end > self.start

    @property
    def span(self) -> int:
        return abs(self.end - self.start)


def columns(moves: Sequence[Move]) -> Sequence[str]:
    """Return the states in the order in which the moves name them."""
    named = (state for move in moves for state in (move.before, move.after) if state is not None)
    return [*dict.fromkeys(map(str, named))]


def drawn(title: str, moves: Sequence[Move]) -> str:
    """Return the picture as SVG, for light and dark pages."""
    states = columns(moves)
    places: dict[str | None, int] = {None: 0, **{state: number for number, state in enumerate(states, 1)}}
    lines = [Line(start=places[move.before], end=places[move.after], reason=move.because) for move in moves]
    ports = {**_ports(lines, leads_on=True), **_ports(lines, leads_on=False)}
    tracks = {**_tracks(lines, ports, leads_on=True), **_tracks(lines, ports, leads_on=False)}
    above, below = (max((tracks[line] for line in lines if line.leads_on == side), default=0) for side in (True, False))
    top = MARGIN + above * TRACK + TRACK // 2
    width = max(_left(len(states)) + BOX, *(_label(line, ports)[1] for line in lines)) + MARGIN
    height = top + HEIGHT + below * TRACK + TRACK // 2 + MARGIN
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height}" font-family="sans-serif" font-size="14">',
            f"<title>{escape(title)}</title>",
            f"<desc>{escape('; '.join(map(_words, moves)))}</desc>",
            _STYLE,
            _HEAD,
            *(_path(line, ports[line], tracks[line], top) for line in lines),
            f'<rect class="start" x="{_left(0)}" y="{top}" width="{START}" height="{HEIGHT}" rx="6" />',
            *(_box(state, number, top) for number, state in enumerate(states, 1)),
            *(_reason(line, ports, tracks[line], top) for line in lines),
            "</svg>\n",
        ]
    )


def _words(move: Move) -> str:
    return f"{move.before or 'new'} to {move.after}: {move.because}"


def _left(column: int) -> int:
    return MARGIN if column == 0 else MARGIN + START + GAP + (column - 1) * (BOX + GAP)


def _width(column: int) -> int:
    return START if column == 0 else BOX


def _ports(lines: Sequence[Line], *, leads_on: bool) -> Mapping[Line, tuple[float, float]]:
    """Return where each line leaves its first state and reaches its last one, so that few lines cross.

    Lines to the left stand left of those to the right, and at each side the shorter ones lie inside the longer ones.
    """
    mine = [line for line in lines if line.leads_on == leads_on]
    places = dict[tuple[Line, int], float]()
    for column in {end for line in mine for end in (line.start, line.end)}:
        to_left = sorted((each for each in mine if max(each.start, each.end) == column), key=lambda each: each.span)
        to_right = sorted((each for each in mine if min(each.start, each.end) == column), key=lambda each: -each.span)
        here = [*to_left, *to_right]
        for number, line in enumerate(here, 1):
            places[line, column] = _left(column) + _width(column) * number / (len(here) + 1)
    return {line: (places[line, line.start], places[line, line.end]) for line in mine}


def _label(line: Line, ports: Mapping[Line, tuple[float, float]]) -> tuple[float, float]:
    """Return from where to where a line and its reason reach."""
    start, end = ports[line]
    middle, half = (start + end) / 2, LETTER * len(line.reason) / 2
    middle = max(middle, MARGIN + half)
    return min(start, end, middle - half), max(start, end, middle + half)


def _tracks(lines: Sequence[Line], ports: Mapping[Line, tuple[float, float]], *, leads_on: bool) -> Mapping[Line, int]:
    """Return how far from the row each line runs: as near as those that are shorter, or as near as it, leave room for."""
    tracks = dict[Line, int]()
    for line in sorted((each for each in lines if each.leads_on == leads_on), key=lambda each: (each.span, each.start)):
        low, high = _label(line, ports)
        taken = {
            track
            for other, track in tracks.items()
            if _label(other, ports)[0] < high + LETTER and low < _label(other, ports)[1] + LETTER
        }
        tracks[line] = max(taken, default=0) + 1
    return tracks


def _height(line: Line, track: int, top: int) -> float:
    return top - track * TRACK if line.leads_on else top + HEIGHT + track * TRACK


def _path(line: Line, ports: tuple[float, float], track: int, top: int) -> str:
    start, end = ports
    side = top if line.leads_on else top + HEIGHT
    height = _height(line, track, top)
    return f'<path d="M{start:g} {side}V{height:g}H{end:g}V{side}" marker-end="url(#head)" />'


def _box(state: str, column: int, top: int) -> str:
    x = _left(column)
    return (
        f'<rect x="{x}" y="{top}" width="{BOX}" height="{HEIGHT}" rx="6" />'
        f'<text x="{x + BOX / 2:g}" y="{top + HEIGHT / 2 + 5:g}" text-anchor="middle">{escape(state)}</text>'
    )


def _reason(line: Line, ports: Mapping[Line, tuple[float, float]], track: int, top: int) -> str:
    start, end = ports[line]
    middle = max((start + end) / 2, MARGIN + LETTER * len(line.reason) / 2)
    y = _height(line, track, top) - 5
    return f'<text class="why" x="{middle:g}" y="{y:g}" text-anchor="middle">{escape(line.reason)}</text>'


def main() -> None:
    for name, (title, moves) in PICTURES.items():
        (REPOSITORY / name).write_text(drawn(title, moves), encoding="utf-8")


if __name__ == "__main__":
    main()
