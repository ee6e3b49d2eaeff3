"""`pgrows`: a data source for exactly the given rows of one PostgreSQL table, through ADBC, which copies them in binary form."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from asset_job.errors import SourceFailed, require
from asset_job.sources.arrow import arrow_schema, load
from asset_job.sources.postgres_sql import COLUMNS, TableColumn, literal, queries, table_sql
from asset_job.sources.request import ReadRequest, RowSelection, quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, kw_only=True)
class Postgres:
    """A PostgreSQL server to connect to. It is pickled for executors, and its repr shows no credentials."""

    uri: str = field(repr=False)
    """Libpq's URI, with the password."""

    @contextmanager
    def cursor(self) -> Iterator[Any]:
        """A cursor on a connection of its own. Raises `SourceFailed` for whatever the server or the network reports."""
        require("pyarrow", "adbc_driver_postgresql")
        from adbc_driver_manager import Error  # noqa: PLC0415 - only where rows are read
        from adbc_driver_postgresql import dbapi  # noqa: PLC0415

        try:
            with closing(dbapi.connect(self.uri)) as connection, closing(connection.cursor()) as cursor:
                yield cursor
        except Error as error:
            raise SourceFailed(f"PostgreSQL: {_message(error, self.uri)}") from None


def _message(error: Exception, uri: str) -> str:
    """What an error says, without the statement and the password: libpq repeats parts of an address that it cannot parse."""
    message = " ".join(str(error).partition("Query was:")[0].split())
    password = urlsplit(uri).password
    return message.replace(password, "***") if password else message


@dataclass(frozen=True, kw_only=True)
class PgRowsReader(DataSourceReader):
    """Runs one query in each task, and casts the rows to `schema`."""

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


def rows_by_adbc(request: ReadRequest, rows: RowSelection, uri: str) -> DataFrame:
    """All columns of the selected rows, in Spark's types. Raises `SourceFailed`."""
    from pyspark.sql.functions import col  # noqa: PLC0415 - kept out of what executors import

    postgres = Postgres(uri=uri)
    columns = _columns(postgres, rows)
    sent = request.spark.createDataFrame([], ", ".join(f"{quoted(column.name)} {column.sent}" for column in columns))
    reader = PgRowsReader(
        postgres=postgres, queries=queries(rows, columns, tasks=request.tasks), schema=arrow_schema(sent)
    )
    frame = load(request.spark, "pgrows", reader, sent.schema)
    return frame.select(*(col(quoted(column.name)).cast(column.spark).alias(column.name) for column in columns))


def _columns(postgres: Postgres, rows: RowSelection) -> list[TableColumn]:
    with postgres.cursor() as cursor:
        cursor.execute(COLUMNS.format(table=literal(table_sql(rows.table))))
        return [TableColumn(name=name, postgres=kind, key_place=place) for name, kind, place in cursor.fetchall()]
