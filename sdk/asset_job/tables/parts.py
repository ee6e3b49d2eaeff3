"""`r.append`: a frame becomes the run's part of a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Observation
from pyspark.sql import functions as sql
from pyspark.sql.types import DateType, NumericType, StringType, TimestampNTZType, TimestampType

from ..errors import AssetJobError, TargetFailed, sentence_from
from ..sources.request import quoted
from .layout import Table, check_columns

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructField


@dataclass(frozen=True, kw_only=True)
class Appended:
    """What a run added to a table; nobody sees it before it is committed."""

    target: str
    table: Table = field(repr=False)
    rows: int = 0
    largest: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def max(self, column: str) -> Any:
        """The largest value of a column, None of no rows; it was looked for while the rows were written. Moments are in UTC.

        Raises `AssetJobError` for a column that cannot be compared, and for a value in no year that Python has.
        """
        for name, value in self.largest.items():
            if name.lower() == column.lower():
                if value is NO_PYTHON_VALUE:
                    raise AssetJobError(
                        f"the largest {column} is in none of the years 1 to 9999, which are all that Python has"
                    )
                return value
        raise AssetJobError(f"{column} is no column with a largest value: there are {', '.join(self.largest)}")


def stage(
    table: Table, frame: DataFrame | None, partition_by: Sequence[str], still_ours: Callable[[], None]
) -> Appended:
    """Write the frame where readers do not look; None: nothing. Raises `AssetJobError`, also for what executors say.

    `still_ours` raises when the try was superseded: it must not remove what its successor is writing.
    """
    still_ours()
    table.prepare()
    if frame is None:
        return Appended(target=str(table.place), table=table)
    return _written(table, frame, partition_by)


def _written(table: Table, frame: DataFrame, partition_by: Sequence[str]) -> Appended:
    """All columns that can be compared are, while they are written: it costs less than a second pass."""
    check_columns(frame.columns, partition_by)
    compared = [field for field in frame.schema if isinstance(field.dataType, _COMPARED)]
    largest = [_largest(field).alias(f"max_{at}") for at, field in enumerate(compared)]
    observation = Observation()
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
    return Appended(target=str(table.place), table=table, rows=int(observation.get["rows"]), largest=values)


def commit(parts: Sequence[Appended], still_ours: Callable[[], None]) -> None:
    """`still_ours` raises when the try was superseded: then nothing is changed."""
    still_ours()
    for part in parts:
        if part.rows:
            part.table.commit(part.rows)
        else:
            part.table.withdraw()


_COMPARED = (NumericType, StringType, DateType, TimestampType, TimestampNTZType)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NO_PYTHON_VALUE: Final = object()


def _largest(field: StructField) -> Column:
    """Moments as microseconds, which no time zone of the machine changes; days as numbers: Spark has years that Python has not."""
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
