"""`pgrows`: a data source for exactly the given rows of one PostgreSQL table, through ADBC, which copies them in binary form."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSourceReader, InputPartition

from asset_job.errors import BadRecordFound, SourceFailed, SourceInvalid, require
from asset_job.sources.arrow import arrow_schema, load
from asset_job.sources.file_reader import BAD
from asset_job.sources.postgres_sql import COLUMNS, SETTINGS, TableColumn, literal, queries, table_sql
from asset_job.sources.request import ReadRequest, RowSelection
from asset_job.sources.unrepresentable import bad_row, bad_rows, nulled_values

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_NOT_TEXT = {"22021", "22P05"}
"""SQLSTATE: bytes that are no characters of the database's encoding, and characters that UTF-8 lacks."""


@dataclass(frozen=True, kw_only=True)
class Postgres:
    """A PostgreSQL server to connect to. It is pickled for executors, and its repr shows no credentials."""

    uri: str = field(repr=False)
    """Libpq's URI, with the password."""

    @contextmanager
    def cursor(self, table: str) -> Iterator[Any]:
        """A cursor on a connection of its own, to read `table`. Raises `SourceFailed` for what the server or the network reports."""
        require("pyarrow", "adbc_driver_postgresql")
        from adbc_driver_manager import Error  # noqa: PLC0415 - only where rows are read
        from adbc_driver_postgresql import dbapi  # noqa: PLC0415

        try:
            with closing(dbapi.connect(self.uri)) as connection, closing(connection.cursor()) as cursor:
                cursor.execute(SETTINGS)
                cursor.fetchall()
                yield cursor
        except Error as error:
            if error.sqlstate in _NOT_TEXT:
                raise SourceInvalid(
                    f"the table {table} holds text that is not valid in UTF-8: correct it, or set the encoding that it has as "
                    f"the database's ({_message(error, self.uri)})"
                ) from None
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
    table: str
    queries: Sequence[str]
    schema: pa.Schema
    columns: Sequence[TableColumn]
    on_bad_row: Literal["fail", "bad"] | None = None
    """What to do with a row for which the last value that is sent is a report of `bad_rows`; a column of the type `BAD` takes its
    place for `bad`. None: no reports are sent."""

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(query) for query in self.queries]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        with self.postgres.cursor(self.table) as cursor:
            cursor.execute(partition.value)
            for batch in cursor.fetch_record_batch():
                columns = self._checked(batch) if self.on_bad_row else batch.columns
                yield pa.RecordBatch.from_arrays(columns, self.schema.names).cast(self.schema)

    def _checked(self, batch: pa.RecordBatch) -> list[pa.Array]:
        *values, reports = batch.columns
        if reports.null_count == len(batch):
            return values if self.on_bad_row == "fail" else [*values, pa.nulls(len(batch), BAD)]
        bad = [report and bad_row(report, self.table, self.columns) for report in reports.to_pylist()]
        if self.on_bad_row == "fail":
            raise _refusal(next(filter(None, bad)))
        is_good = pc.is_null(reports)
        nulled = (pc.if_else(is_good, each, pa.scalar(None, each.type)) for each in values)
        return [*nulled, pa.array(bad, BAD)]


def _refusal(bad: Mapping[str, Any]) -> BadRecordFound:
    remedy = "correct the row, or read with on_unrepresentable='bad', 'null' or 'text'"
    return BadRecordFound(f"{bad['_reason']}, in the row {bad['_at']}: {remedy}")


def rows_by_adbc(request: ReadRequest, rows: RowSelection, uri: str, *, counts_nulls: bool = False) -> DataFrame:
    """All columns of the selected rows, in Spark's types. Raises `SourceFailed`.

    With `on_unrepresentable="bad"` the struct `bad_column` follows: it is null in a good row, and in a bad record all other
    columns are null. With `null` and `counts_nulls` an int follows: the number of the row's values that became null.
    """
    from pyspark.sql.functions import lit  # noqa: PLC0415 - kept out of what executors import
    from pyspark.sql.types import DataType, IntegerType, StructType  # noqa: PLC0415

    from asset_job.sources.frames import BAD_TYPE, bad_column  # noqa: PLC0415

    postgres, mode = Postgres(uri=uri), request.on_unrepresentable
    columns = _columns(postgres, rows, as_text=mode == "text")
    names = [column.name for column in columns]
    report: str | None = None
    last: Sequence[tuple[str, DataType]] = ()
    if mode in {"fail", "bad"}:
        report = bad_rows(rows, columns)
        last = [(bad_column(names), BAD_TYPE)] if mode == "bad" else ()
    elif mode == "null" and counts_nulls:
        report, last = nulled_values(columns), [(bad_column(names, "nulled"), IntegerType())]
    # Columns are named by number, because the names of a table's columns may differ in case only.
    sent = StructType.fromDDL(", ".join(f"`{at}` {column.sent}" for at, column in enumerate(columns)))
    for _, kind in last if report else ():
        sent.add(str(len(columns)), kind)
    reader = PgRowsReader(
        postgres=postgres,
        table=rows.table,
        queries=queries(rows, columns, tasks=request.tasks, last=report),
        schema=arrow_schema(request.spark.createDataFrame([], sent)),
        columns=columns,
        on_bad_row=mode if report and mode in {"fail", "bad"} else None,
    )
    frame = load(request.spark, "pgrows", reader, sent)
    values = [frame[str(at)].cast(column.spark) for at, column in enumerate(columns)]
    further = [frame[str(len(columns))] if report else lit(None).cast(kind) for _, kind in last]
    return frame.select(*values, *further).toDF(*names, *(name for name, _ in last))


def _columns(postgres: Postgres, rows: RowSelection, *, as_text: bool) -> list[TableColumn]:
    with postgres.cursor(rows.table) as cursor:
        cursor.execute(COLUMNS.format(table=literal(table_sql(rows.table))))
        columns = [
            TableColumn(name=name, postgres=kind, base=base, has_cast=has_cast, key_place=place)
            for name, kind, base, has_cast, place in cursor.fetchall()
        ]
    return [replace(column, as_text=as_text and column.unrepresentable is not None) for column in columns]
