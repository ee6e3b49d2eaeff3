"""Events of rows, as watchers.md fixes their payload."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from triggers.base import JsonObject, TriggerEvent
from triggers.postgres.ledger import ranges_of
from triggers.postgres.options import NewRowsOptions

MOST_DIGITS: Final = 308


@dataclass(frozen=True, kw_only=True)
class DetectedRows:
    """Rows that events are made of: ids, ascending, or primary keys as JSON text; and each row as JSON text, none when no columns are wanted."""

    keys: Sequence[Any]
    rows: Sequence[str]


def events_by_id(detected: DetectedRows, options: NewRowsOptions, watermark: JsonObject) -> Iterator[TriggerEvent]:
    """The sizes of `ranges` add up to `count`."""
    for part in _parts(detected, options.batch.max_rows):
        payload = {"ranges": [list(limits) for limits in ranges_of(part.keys)]}
        yield _event(part, options, watermark, payload)


def events_by_key(detected: DetectedRows, options: NewRowsOptions, watermark: JsonObject) -> Iterator[TriggerEvent]:
    for part in _parts(detected, options.batch.max_rows):
        yield _event(part, options, watermark, {"keys": _parse_all(part.keys)})


def _event(part: DetectedRows, options: NewRowsOptions, watermark: JsonObject, named: JsonObject) -> TriggerEvent:
    payload = {"table": options.table, "column": options.column, **named}
    if options.columns:
        payload["rows"] = _parse_all(part.rows)
    return TriggerEvent(count=len(part.keys), watermark=watermark, payload=payload)


def _parts(detected: DetectedRows, size: int) -> Iterator[DetectedRows]:
    for first in range(0, len(detected.keys), size):
        yield DetectedRows(keys=detected.keys[first : first + size], rows=detected.rows[first : first + size])


def _parse_all(texts: Sequence[str]) -> list[Any]:
    """JSON as PostgreSQL writes it; numbers that no float can hold stay text."""
    values: list[Any] = json.loads(f"[{','.join(texts)}]", parse_float=_float_or_text, parse_int=_int_or_text)
    return values


def _int_or_text(text: str) -> int | str:
    return int(text) if len(text) < MOST_DIGITS else text


def _float_or_text(text: str) -> float | str:
    number = float(text)
    return number if math.isfinite(number) else text
