"""The result of each fault, as a table at the end of `make torture`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass

PROPERTY = "torture"


@dataclass(frozen=True, kw_only=True)
class Tally:
    """The numbers of items written and emitted so far."""

    rows: int
    files: int
    events: int
    lost: int
    repeated: int


@dataclass(frozen=True, kw_only=True)
class Result:
    """One line of the table. A dash means that the fault has no such number."""

    fault: str
    database: str
    seed: int | str = "-"
    times: int | str = "-"
    rows: int | str = "-"
    files: int | str = "-"
    events: int | str = "-"
    lost: int | str = "-"
    repeated: int | str = "-"
    gap: str = "-"
    """The witness's largest gap in seconds, in brackets how much of it the daemon waited for a processor. For neighbours: the
    longest time from a row's commit to its event. For nodes: the longest time for which the Secret of an undisturbed driver
    outlived its container, at most half a second more."""

    def to_json(self) -> str:
        return json.dumps(asdict(self))


def difference(now: Tally, before: Tally | None) -> dict[str, int]:
    """Return the numbers of one fault: `now` less `before`. Lost and repeated items count over all faults."""
    if before is None:
        return asdict(now)
    return {**asdict(now), **{name: getattr(now, name) - getattr(before, name) for name in ("rows", "files", "events")}}


def table(lines: Iterable[str]) -> list[str]:
    rows = [[str(value) for value in json.loads(line).values()] for line in lines]
    rows.insert(0, [*Result.__dataclass_fields__])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(value.ljust(width) for value, width in zip(row, widths, strict=True)).rstrip() for row in rows]
