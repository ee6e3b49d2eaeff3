"""Find the rows of given keys in the rows of a file. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

TypedKey: TypeAlias = "tuple[Any, ...]"
"""A key as the table's files have it, in a form that is compared as it is."""


def _comparable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column with numbers for dates and times: Python lacks some of Spark's years."""
    if pa.types.is_date32(column.type):
        return column.cast(pa.int32())
    return column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column


def typed_keys(rows: pa.Table, names: Sequence[str]) -> list[TypedKey]:
    """The keys of rows, whose columns `names` lists."""
    return list(zip(*(_comparable(rows.column(name)).to_pylist() for name in names), strict=True))


def places_of(rows: pa.Table, names: Sequence[str], keys: Collection[TypedKey]) -> dict[TypedKey, list[int]]:
    """Where the rows with these keys are."""
    if not keys or not rows.num_rows:
        return {}
    masks = []
    for at, name in enumerate(names):
        column = _comparable(rows.column(name))
        masks.append(pc.is_in(column, value_set=pa.array({key[at] for key in keys}, column.type)))
    is_candidate = masks[0]
    for mask in masks[1:]:
        is_candidate = pc.and_(is_candidate, mask)
    candidates = pc.indices_nonzero(is_candidate)
    places: dict[TypedKey, list[int]] = {}
    for at, key in zip(
        candidates.to_pylist(), typed_keys(rows.select(list(names)).take(candidates), names), strict=True
    ):
        if key in keys:
            places.setdefault(key, []).append(at)
    return places


def staying(
    rows: int, places: Mapping[TypedKey, list[int]], touched: Collection[TypedKey], only: Collection[TypedKey] | None
) -> pa.Array | None:
    """Which rows stay; None: all. With `only`, no others but the rows with these keys."""
    gone = {at for key, some in places.items() if key in touched for at in some}
    if only is None:
        kept = None if not gone else [at not in gone for at in range(rows)]
    else:
        staying = {at for key, some in places.items() if key in only for at in some} - gone
        kept = None if len(staying) == rows else [at in staying for at in range(rows)]
    return None if kept is None else pa.array(kept, pa.bool_())
