"""`pgrows`: exactly the given rows of one table, through ADBC, which copies them in binary form."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from ..errors import SourceFailed, require


@dataclass(frozen=True, kw_only=True)
class Postgres:
    """Where to connect; it travels pickled, and does not show its credentials."""

    uri: str = field(repr=False)

    @contextmanager
    def cursor(self) -> Iterator[Any]:
        """Raises `SourceFailed` for whatever the server or the way to it says."""
        require("pyarrow", "adbc_driver_postgresql")
        from adbc_driver_manager import Error  # noqa: PLC0415 - only where rows are read
        from adbc_driver_postgresql import dbapi  # noqa: PLC0415

        try:
            with closing(dbapi.connect(self.uri)) as connection, closing(connection.cursor()) as cursor:
                yield cursor
        except Error as error:
            raise SourceFailed(f"PostgreSQL: {_message(error, self.uri)}") from None


def _message(error: Exception, uri: str) -> str:
    """Without the statement and the password: libpq repeats a part of an address that it does not understand."""
    message = " ".join(str(error).partition("Query was:")[0].split())
    password = urlsplit(uri).password
    return message.replace(password, "***") if password else message


@dataclass(frozen=True, kw_only=True)
class PgRowsReader(DataSourceReader):
    postgres: Postgres
    queries: Sequence[str]
    schema: pa.Schema

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(query) for query in self.queries]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        with self.postgres.cursor() as cursor:
            cursor.execute(partition.value)
            for batch in cursor.fetch_record_batch():
                yield batch.cast(self.schema)
