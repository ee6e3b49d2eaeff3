"""The contents of a Delta table's log entries. Pure, apart from reading the metadata of Parquet files."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

from asset_job.tables.data_files import DataFile

_LONGEST_TEXT = 64
"""Characters of a text that is written as a smallest or largest value."""
_EXACT_DIGITS = 15
"""Decimal digits that a double in JSON keeps exactly."""
_NESTING = {"nullable", "containsNull", "valueContainsNull", "metadata"}


def type_text(kind: Any) -> str:
    """A text for a type in a Delta schema's JSON. Types that differ only in what may be null have the same text."""
    return kind if isinstance(kind, str) else json.dumps(_bare(kind))


def _bare(kind: Any) -> Any:
    if isinstance(kind, dict):
        return {name: _bare(value) for name, value in kind.items() if name not in _NESTING}
    return [_bare(each) for each in kind] if isinstance(kind, list) else kind


def partition_values(columns: Sequence[str], values: Sequence[str | None]) -> dict[str, str | None]:
    """The values of a file's partition by column. An empty text is null, as Delta's protocol defines it."""
    return {name: value or None for name, value in zip(columns, values, strict=True)}


def statistics(file: DataFile) -> str:
    """The `stats` of a file as JSON, for columns that are not nested.

    A smallest or largest value is given only if it is known to hold for all rows.
    """
    smallest: dict[str, Any] = {}
    largest: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for name, groups in _columns(file.metadata).items():
        if any(group is None or not group.has_null_count for group in groups):
            continue
        nulls[name] = sum(group.null_count for group in groups)
        bounds = None if name in file.with_nan else _bounds(groups, file.rows - nulls[name])
        if bounds is not None:
            _add(smallest, name, bounds[0])
            _add(largest, name, bounds[1])
    return json.dumps({"numRecords": file.rows, "minValues": smallest, "maxValues": largest, "nullCount": nulls})


def _bounds(groups: Sequence[Any], values: int) -> tuple[Any, Any] | None:
    """The smallest and the largest value by the statistics of row groups; None if these do not cover all `values`."""
    with_bounds = [group for group in groups if group.has_min_max]
    if not with_bounds or sum(group.num_values for group in with_bounds) != values:
        return None
    try:
        return min(group.min for group in with_bounds), max(group.max for group in with_bounds)
    except (OverflowError, ValueError):  # Python's years end with 9999, Parquet's do not
        return None


def _columns(metadata: Any) -> Mapping[str, list[Any]]:
    """The statistics of each column that is not nested, one for each row group."""
    plain = {field.name for field in metadata.schema.to_arrow_schema() if not pa.types.is_nested(field.type)}
    statistics_by_column: dict[str, list[Any]] = {}
    for column in _chunks(metadata):
        if column.path_in_schema in plain:
            statistics_by_column.setdefault(column.path_in_schema, []).append(column.statistics)
    return statistics_by_column


def _chunks(metadata: Any) -> Iterator[Any]:
    for group in range(metadata.num_row_groups):
        row_group = metadata.row_group(group)
        yield from (row_group.column(at) for at in range(row_group.num_columns))


def _add(values: dict[str, Any], name: str, value: Any) -> None:
    """Add a value under a column's name, unless JSON cannot represent it exactly."""
    match value:
        case bool() | bytes():
            return
        case float() if not math.isfinite(value):
            return
        case str() if len(value) > _LONGEST_TEXT:
            return
        case Decimal() if len(value.as_tuple().digits) > _EXACT_DIGITS:
            return
        case Decimal():
            values[name] = float(value)
        case datetime():
            values[name] = value.isoformat(timespec="microseconds").replace("+00:00", "Z")
        case date():
            values[name] = value.isoformat()
        case int() | float() | str():
            values[name] = value
