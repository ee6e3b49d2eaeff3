"""What each fault came to, as a table at the end of `make torture`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass

PROPERTY = "torture"


@dataclass(frozen=True, kw_only=True)
class Tally:
    """What was written and told so far."""

    rows: int
    files: int
    events: int
    lost: int
    repeated: int


@dataclass(frozen=True, kw_only=True)
class Result:
    """One line; a dash is what the fault has not."""

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
    """The witness's largest, in seconds; in brackets how much of it the daemon waited for a processor. Of neighbours: the longest
    from a row's commit to its event."""

    def to_json(self) -> str:
        return json.dumps(asdict(self))


def difference(now: Tally, before: Tally | None) -> dict[str, int]:
    """What a fault adds to those before it; lost and repeated are of all."""
    if before is None:
        return asdict(now)
    return {**asdict(now), **{name: getattr(now, name) - getattr(before, name) for name in ("rows", "files", "events")}}


def table(lines: Iterable[str]) -> list[str]:
    rows = [[str(value) for value in json.loads(line).values()] for line in lines]
    rows.insert(0, [*Result.__dataclass_fields__])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(value.ljust(width) for value, width in zip(row, widths, strict=True)).rstrip() for row in rows]
