"""How events of mode `id` name rows (pure)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from triggers.base import JsonObject
from triggers.postgres.by_id.ledger import ranges_of


class IdRanges:
    """Mode `id`: rows are named by ranges of ids, whose sizes add up to the number of rows."""

    @staticmethod
    def key_of(row: Any) -> int:
        return int(row[0])

    @staticmethod
    def members(rows: Sequence[Any]) -> JsonObject:
        return {"ranges": [list(limits) for limits in ranges_of([row[0] for row in rows])]}

    @staticmethod
    def sizes(rows: Sequence[Any]) -> Sequence[int]:
        return [48] * len(rows)
