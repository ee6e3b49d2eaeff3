"""`r.append`: a frame becomes the run's part of a table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Protocol
from uuid import uuid4

from pyspark.sql import Observation
from pyspark.sql import functions as sql
from pyspark.sql.types import DateType, NumericType, StringType, TimestampNTZType, TimestampType

from ..errors import AssetJobError, TargetFailed, require, sentence_from
from ..sources.request import connection_of, quoted
from .layout import Owner, Place, check_columns
from .local_table import LocalTable

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructField


class Table(Protocol):
    """One try's way to its run's part of a table."""

    @property
    def place(self) -> Place: ...

    def others(self, spark: SparkSession, columns: Mapping[str, str], partition_by: Sequence[str]) -> DataFrame | None:
        """What other runs hold in these columns (name -> Spark's type); None when there is nothing."""

    def prepare(self) -> None: ...
    def stage(self, frame: DataFrame, partition_by: Sequence[str]) -> None: ...
    def commit(self, rows: int) -> None: ...
    def withdraw(self) -> None: ...


@dataclass(frozen=True, kw_only=True)
class Appended:
    """What a run added to a table."""

    target: str
    rows: int
    seen: Observed | None
    """None when nothing was written."""

    def max(self, column: str) -> Any:
        """The largest value of a column, None of no rows; it was looked for while the rows were written."""
        return None if self.seen is None else self.seen.max(column)


@dataclass(frozen=True, kw_only=True)
class Staged:
    """Written, and seen by nobody yet."""

    table: Table
    appended: Appended


def table_at(
    place: Place, owner: Owner, connections: Mapping[str, Mapping[str, Any]], connection: str | None = None
) -> Table:
    """Raises `AssetJobError` where the way to the bucket is missing."""
    attempt = uuid4().hex
    if place.bucket is None:
        return LocalTable(place=place, owner=owner, attempt=attempt)
    chosen = connection_of(connections, "s3", connection)
    require("pyarrow", "obstore")
    from ..sources.s3_objects import s3_access  # noqa: PLC0415 - needs what was just required
    from .s3_table import S3Table  # noqa: PLC0415

    return S3Table(place=place, owner=owner, attempt=attempt, access=s3_access(chosen))


def stage(table: Table, frame: DataFrame | None, partition_by: Sequence[str], still_ours: Callable[[], None]) -> Staged:
    """Write the frame where readers do not look; None: nothing. Raises `AssetJobError`, also for what executors say.

    `still_ours` raises when the try was superseded: it must not remove what its successor is writing.
    """
    still_ours()
    table.prepare()
    seen = None if frame is None else _written(table, frame, partition_by)
    return Staged(table=table, appended=Appended(target=str(table.place), rows=seen.rows if seen else 0, seen=seen))


def _written(table: Table, frame: DataFrame, partition_by: Sequence[str]) -> Observed:
    check_columns(frame.columns, partition_by)
    counted, seen = observed(frame)
    try:
        table.stage(counted, partition_by)
    except AssetJobError:
        raise
    except Exception as error:
        sentence = sentence_from(str(error))
        if sentence is None:
            raise
        raise TargetFailed(sentence) from error
    return seen


def commit(staged: Iterable[Staged], still_ours: Callable[[], None]) -> None:
    """`still_ours` raises when the try was superseded: then nothing is changed."""
    parts = list(staged)
    still_ours()
    for part in parts:
        if part.appended.rows:
            part.table.commit(part.appended.rows)
        else:
            part.table.withdraw()


_COMPARED = (NumericType, StringType, DateType, TimestampType, TimestampNTZType)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, kw_only=True)
class Observed:
    """The row count and the largest values of a frame, collected while it is written and known afterwards."""

    observation: Observation
    compared: Sequence[StructField]

    @property
    def rows(self) -> int:
        return int(self.observation.get["rows"])

    def max(self, column: str) -> Any:
        """None of no rows; moments are in UTC. Raises `AssetJobError` for a column that cannot be compared."""
        for at, field in enumerate(self.compared):
            if field.name.lower() == column.lower():
                largest = self.observation.get[f"max_{at}"]
                is_moment = isinstance(field.dataType, TimestampType) and largest is not None
                return _EPOCH + timedelta(microseconds=largest) if is_moment else largest
        names = ", ".join(field.name for field in self.compared)
        raise AssetJobError(f"{column} is no column with a largest value: there are {names}")


def observed(frame: DataFrame) -> tuple[DataFrame, Observed]:
    """The frame to be written instead of `frame`. All that can be compared is: it costs less than a second pass."""
    compared = [field for field in frame.schema if isinstance(field.dataType, _COMPARED)]
    largest = [_largest(field).alias(f"max_{at}") for at, field in enumerate(compared)]
    observation = Observation()
    counted = frame.observe(observation, sql.count(sql.lit(1)).alias("rows"), *largest)
    return counted, Observed(observation=observation, compared=compared)


def _largest(field: StructField) -> Column:
    """Moments as microseconds, which no time zone of the machine changes."""
    largest = sql.max(sql.col(quoted(field.name)))
    return sql.unix_micros(largest) if isinstance(field.dataType, TimestampType) else largest
