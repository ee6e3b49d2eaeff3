"""How events of mode `updated_at` name rows (pure)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from triggers.base import JsonObject, JsonValue
from triggers.postgres.reading.sizes import length_of
from triggers.shared.postgres.values import parse_all


class PrimaryKeys:
    """Mode `updated_at`: rows are named by their primary keys."""

    @staticmethod
    def key_of(row: Any) -> JsonValue:
        return parse_all([row["key"]])[0]  # type: ignore[no-any-return]

    @staticmethod
    def members(rows: Sequence[Any]) -> JsonObject:
        return {"keys": parse_all([row["key"] for row in rows])}

    @staticmethod
    def sizes(rows: Sequence[Any]) -> Sequence[int]:
        return [length_of(row["key"]) + 2 for row in rows]


class SoftDeletedKeys(PrimaryKeys):
    """Mode `updated_at` with `soft_delete`: the keys of rows that count as deleted are listed by themselves."""

    @staticmethod
    def members(rows: Sequence[Any]) -> JsonObject:
        living = [row["key"] for row in rows if not row["deleted"]]
        return {"keys": parse_all(living), "deleted": parse_all([row["key"] for row in rows if row["deleted"]])}
