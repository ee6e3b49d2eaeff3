"""What an Iceberg manifest says of the columns of a file, from which readers learn which files they can skip."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from pyiceberg.conversions import to_bytes
from pyiceberg.io.pyarrow import MetricModeTypes, MetricsMode, compute_statistics_plan
from pyiceberg.schema import Schema
from pyiceberg.types import DecimalType, PrimitiveType

from asset_job.tables.parquet.bounds import Bounds, upper_bound

_NONE, _COUNTS = MetricsMode(MetricModeTypes.NONE), MetricsMode(MetricModeTypes.COUNTS)


def metrics(schema: Schema, properties: dict[str, str], bounds: Mapping[str, Bounds]) -> dict[str, Any]:
    """The counts and bounds of a file's columns by field id, as far as the table's properties ask for them.

    pyiceberg's own are wrong beside a NaN, and fail at some texts and at years that Python lacks.
    """
    plan = compute_statistics_plan(schema, properties)
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
