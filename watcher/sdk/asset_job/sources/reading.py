"""`r.read`: what is new as a DataFrame, by the way that the job has: our data sources, or Spark's own readers with jars."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..errors import AssetJobError
from .failures import require
from .items import LocalFile, Rows, S3File, items_of
from .postgres_reading import rows_of_postgres
from .request import Reading
from .spark_readers import by_spark, local_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from ..events import AssetEvent


def read(reading: Reading, given: Any, events: Sequence[AssetEvent], table: str | None) -> DataFrame:
    """Raises `AssetJobError`, for what executors meet only when the DataFrame is used."""
    if reading.missing not in {"fail", "skip"}:
        raise AssetJobError(f"missing={reading.missing!r} is unknown: use 'fail' or 'skip'")
    items = items_of(given, events, table)
    if isinstance(items, Rows):
        return rows_of_postgres(reading, items)
    if not items:
        return reading.nothing()
    if isinstance(items[0], LocalFile):
        return local_files(reading, [file for file in items if isinstance(file, LocalFile)])
    return _from_s3(reading, [file for file in items if isinstance(file, S3File)])


def _from_s3(reading: Reading, files: Sequence[S3File]) -> DataFrame:
    if reading.has_jar("hadoop-aws"):
        return by_spark(reading, [f"s3a://{file.bucket}/{file.key}" for file in files])
    require("pyarrow", "obstore")
    from .s3_reading import s3_files  # noqa: PLC0415 - needs what was just required

    return s3_files(reading, files)
