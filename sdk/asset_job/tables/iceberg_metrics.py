"""What an Iceberg manifest says of the columns of a file, from which readers learn which files they can skip."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any

from pyiceberg.conversions import to_bytes
from pyiceberg.io.pyarrow import (
    MetricModeTypes,
    MetricsMode,
    StatisticsCollector,
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
)
from pyiceberg.schema import Schema
from pyiceberg.types import DecimalType, PrimitiveType

from asset_job.tables.bounds import Bounds, upper_bound
from asset_job.tables.data_files import DataFile

_NONE, _COUNTS = MetricsMode(MetricModeTypes.NONE), MetricsMode(MetricModeTypes.COUNTS)


def metrics(schema: Schema, properties: dict[str, str], file: DataFile) -> dict[str, Any]:
    """The sizes, counts and bounds of a file's columns by field id, as far as the table's properties ask for them."""
    plan = compute_statistics_plan(schema, properties)
    sizes = data_file_statistics_from_parquet_metadata(
        parquet_metadata=file.metadata,
        stats_columns={number: replace(each, mode=_NONE) for number, each in plan.items()},
        parquet_column_mapping=parquet_path_to_id_mapping(schema),
    )
    return {**sizes.to_serialized_dict(), **_measured(schema, plan, file.bounds)}


def _measured(
    schema: Schema, plan: Mapping[int, StatisticsCollector], bounds: Mapping[str, Bounds]
) -> dict[str, dict[int, Any]]:
    """Counts and bounds. pyiceberg's own are wrong beside a NaN, and fail at some texts and at years that Python lacks."""
    values: dict[int, int] = {}
    nulls: dict[int, int] = {}
    lower: dict[int, bytes] = {}
    upper: dict[int, bytes] = {}
    for column in schema.fields:
        known, collector = bounds.get(column.name), plan.get(column.field_id)
        if known is None or collector is None or collector.mode == _NONE:
            continue
        number, smallest, largest = column.field_id, known.smallest, known.largest
        values[number], nulls[number] = known.values + known.nulls, known.nulls
        kind = column.field_type
        if smallest is None or collector.mode == _COUNTS or not isinstance(kind, PrimitiveType):
            continue
        if isinstance(kind, DecimalType):
            smallest, largest = Decimal(smallest), Decimal(largest)
        elif isinstance(smallest, str) and collector.mode.length:
            smallest, largest = smallest[: collector.mode.length], upper_bound(largest, collector.mode.length)
        lower[number] = to_bytes(kind, smallest)
        if largest is not None:
            upper[number] = to_bytes(kind, largest)
    return {"value_counts": values, "null_value_counts": nulls, "lower_bounds": lower, "upper_bounds": upper}
