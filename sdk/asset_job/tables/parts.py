"""`r.append`: make a frame the run's part of a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Observation
from pyspark.sql import functions as sql
from pyspark.sql.types import DateType, NumericType, StringType, TimestampNTZType, TimestampType

from asset_job.errors import AssetJobError, TargetFailed, sentence_from
from asset_job.sources.request import quoted
from asset_job.tables.frames import check_frame, guarded
from asset_job.tables.layout import TargetTable

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructField


@dataclass(frozen=True, kw_only=True)
class AppendedPart:
    """The rows that a run added to a table. Nobody sees them before they are committed."""

    target: str
    """The table's location."""
    table: TargetTable = field(repr=False)
    rows: int = 0
    largest: Mapping[str, Any] = field(default_factory=dict, repr=False)
    commit: str | None = None
    """The version of the Delta table, or the snapshot of the Iceberg table, that has them.

    None: the table is Parquet, nothing was written, or the answer to the commit was lost.
    """

    def max(self, column: str) -> Any:
        """The largest value of a column; None if there are no rows. It was computed while the rows were written.

        Timestamps are in UTC. Raises `AssetJobError` for a column whose values cannot be compared, and for a value outside
        of Python's years, 1 to 9999.
        """
        for name, value in self.largest.items():
            if name.lower() == column.lower():
                if value is NO_PYTHON_VALUE:
                    raise AssetJobError(
                        f"the largest {column} is outside of the years 1 to 9999, which are all that Python has: "
                        "compute it with Spark"
                    )
                return value
        raise AssetJobError(f"{column} has no largest value: use one of the columns {', '.join(self.largest)}")


def stage(
    table: TargetTable, frame: DataFrame | None, partition_by: Sequence[str], check_not_superseded: Callable[[], None]
) -> AppendedPart:
    """Write the frame where readers do not look. Raises `AssetJobError`, also for what executors report.

    Without a frame nothing is written. `check_not_superseded` raises when the try was superseded: it must not remove what
    its successor is writing.
    """
    check_not_superseded()
    table.prepare()
    if frame is None:
        return AppendedPart(target=str(table.location), table=table)
    return _written(table, frame, partition_by)


def _written(table: TargetTable, frame: DataFrame, partition_by: Sequence[str]) -> AppendedPart:
    """Stage a frame, and compute the largest values of its columns in the same pass."""
    check_frame(frame.schema, partition_by, table)
    own = {name.lower(): name for name in frame.columns}
    partition_by = [own[name.lower()] for name in partition_by]
    compared = [field for field in frame.schema if isinstance(field.dataType, _COMPARED)]
    largest = [_largest(field).alias(f"max_{at}") for at, field in enumerate(compared)]
    observation = Observation()
    frame = guarded(frame, partition_by, table)
    counted = frame.observe(observation, sql.count(sql.lit(1)).alias("rows"), *largest)
    try:
        table.stage(counted, partition_by)
    except AssetJobError:
        raise
    except Exception as error:
        sentence = sentence_from(str(error))
        if sentence is None:
            raise
        raise TargetFailed(sentence) from error
    values = {field.name: _value_of(field, observation.get[f"max_{at}"]) for at, field in enumerate(compared)}
    return AppendedPart(target=str(table.location), table=table, rows=int(observation.get["rows"]), largest=values)


def commit(parts: Sequence[AppendedPart], check_not_superseded: Callable[[], None]) -> Sequence[AppendedPart]:
    """Make staged parts visible, and return them with their commits. `check_not_superseded` raises when the try was superseded: then nothing is changed."""
    check_not_superseded()
    return [
        replace(part, commit=part.table.commit(part.rows) if part.rows else part.table.commit_empty()) for part in parts
    ]


_COMPARED = (NumericType, StringType, DateType, TimestampType, TimestampNTZType)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NO_PYTHON_VALUE: Final = object()
"""Stands for a value outside of Python's years."""


def _largest(field: StructField) -> Column:
    """The aggregate for a column's largest value, in a form that the driver can receive.

    A timestamp comes as microseconds, which the machine's time zone does not change, and a date as a number of days: Spark
    has years that Python lacks.
    """
    largest = sql.max(sql.col(quoted(field.name)))
    match field.dataType:
        case TimestampType():
            return sql.unix_micros(largest)
        case DateType():
            return sql.unix_date(largest)
        case TimestampNTZType():
            return largest.cast("string")
    return largest


def _value_of(field: StructField, largest: Any) -> Any:
    """The Python value of what `_largest` computed; `NO_PYTHON_VALUE` if there is none."""
    if largest is None:
        return None
    try:
        match field.dataType:
            case TimestampType():
                return _EPOCH + timedelta(microseconds=largest)
            case DateType():
                return _EPOCH.date() + timedelta(days=largest)
            case TimestampNTZType():
                return datetime.fromisoformat(largest)
    except (OverflowError, ValueError):
        return NO_PYTHON_VALUE
    return largest
