"""How many rows there were and how far they reach, counted while they are written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from pyspark.sql import Observation
from pyspark.sql import functions as sql
from pyspark.sql.types import DateType, NumericType, StringType, TimestampNTZType, TimestampType

from ..errors import AssetJobError
from ..sources.request import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructField

_COMPARED = (NumericType, StringType, DateType, TimestampType, TimestampNTZType)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, kw_only=True)
class Observed:
    """What was seen of a frame in the one pass over it; known once it was written."""

    observation: Observation
    compared: Sequence[StructField]

    @property
    def rows(self) -> int:
        return int(self.observation.get["rows"])

    def max(self, column: str) -> Any:
        """None of no rows; moments are in UTC. Raises `AssetJobError` for a column that cannot be compared."""
        for at, field in enumerate(self.compared):
            if field.name.lower() == column.lower():
                found = self.observation.get[f"max_{at}"]
                is_moment = isinstance(field.dataType, TimestampType) and found is not None
                return _EPOCH + timedelta(microseconds=found) if is_moment else found
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
