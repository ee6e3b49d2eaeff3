"""`pgrows`: a data source for exactly the given rows of one PostgreSQL table, through ADBC, which copies them in binary form."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSourceReader, InputPartition

from asset_job.errors import BadRecordFound, SourceFailed, SourceInvalid, require
from asset_job.sources.arrow import load
from asset_job.sources.file_reader import BAD
from asset_job.sources.postgres_sql import COLUMNS, SETTINGS, TableColumn, literal, queries
from asset_job.sources.request import OnUnrepresentable, ReadRequest, RowSelection, bad_column
from asset_job.sources.table_names import table_sql
from asset_job.sources.unrepresentable import bad_row, bad_rows, nulled_values

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ARROW_TYPES = {
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "string": pa.string(),
    "date": pa.date32(),
    "binary": pa.binary(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
"""The types by Spark's names, as Spark takes them from Python."""
_BAD_FIELDS = (f"{each.name}: {'bigint' if each.type == pa.int64() else 'string'}" for each in BAD)
BAD_TYPE = f"struct<{', '.join(_BAD_FIELDS)}>"
"""`BAD` as Spark's type."""
_NOT_TEXT = re.compile(r'\b0x[0-9a-f]{2}\b.*"UTF8"|"UTF8".*\b0x[0-9a-f]{2}\b')
"""What all languages of PostgreSQL's two messages have in common: no character of an encoding, or one that UTF-8 lacks."""


class NotConnected(SourceFailed):
    """PostgreSQL cannot be reached, or refuses the sign-in."""


@dataclass(frozen=True, kw_only=True)
class Postgres:
    """A PostgreSQL server to connect to. It is pickled for executors, and its repr shows no credentials."""

    uri: str = field(repr=False)
    """Libpq's URI, with the password."""

    @contextmanager
    def cursor(self, table: str) -> Iterator[Any]:
        """A cursor on a connection of its own, to read `table`. Raises `SourceFailed` for what the server or the network reports.

        That is `NotConnected` if there is no connection.
        """
        require("pyarrow", "adbc_driver_postgresql")
        from adbc_driver_manager import Error  # noqa: PLC0415 - only where rows are read
        from adbc_driver_postgresql import dbapi  # noqa: PLC0415

        try:
            opened = dbapi.connect(self.uri)
        except (Error, OSError) as error:
            raise NotConnected(f"PostgreSQL: {_message(error, self.uri)}") from None
        try:
            with closing(opened) as connection, closing(connection.cursor()) as cursor:
                cursor.execute(SETTINGS)
                cursor.fetchall()
                yield cursor
        except (Error, OSError, pa.ArrowException) as error:  # the latter two while rows arrive
            message = _message(error, self.uri)
            if _NOT_TEXT.search(message):
                raise SourceInvalid(
                    f"the table {table} holds a text that is not valid: correct it ({message})"
                ) from None
            raise SourceFailed(f"PostgreSQL: {message}") from None


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
    has_reports: bool
    """Whether the last value of each row is a report of `bad_rows`."""
    keeps_bad: bool
    """Whether bad rows are kept, with a last column of the type `BAD` in place of the reports. False: they are an error."""

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(query) for query in self.queries]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        with self.postgres.cursor(self.table) as cursor:
            cursor.execute(partition.value)
            for batch in cursor.fetch_record_batch():
                columns = self._checked(batch) if self.has_reports else batch.columns
                yield pa.RecordBatch.from_arrays(columns, self.schema.names).cast(self.schema)

    def _checked(self, batch: pa.RecordBatch) -> list[pa.Array]:
        *values, reports = batch.columns
        if reports.null_count == len(batch):
            return [*values, pa.nulls(len(batch), BAD)] if self.keeps_bad else values
        bad = [report and bad_row(report, self.table, self.columns) for report in reports.to_pylist()]
        if not self.keeps_bad:
            raise _refusal(next(filter(None, bad)))
        is_good = pc.is_null(reports)
        nulled = (pc.if_else(is_good, each, pa.scalar(None, each.type)) for each in values)
        return [*nulled, pa.array(bad, BAD)]


def _refusal(bad: Mapping[str, Any]) -> BadRecordFound:
    remedy = (
        "correct the row, or read with on_unrepresentable='null' or 'text', with a schema that has the column for corrupt "
        "records, or with mode='DROPMALFORMED'"
    )
    return BadRecordFound(f"{bad['_reason']}, in the row {bad['_at']}: {remedy}")


def rows_by_adbc(
    request: ReadRequest,
    rows: RowSelection,
    uri: str,
    *,
    renewed: Callable[[], str | None] = lambda: None,
    counts_nulls: bool = False,
) -> DataFrame:
    """All columns of the selected rows, in Spark's types. Raises `SourceFailed`.

    `renewed` returns another `uri` to try if there is no connection by this one; None if there is none.

    With `on_unrepresentable="bad"` the struct `bad_column` follows: it is null in a good row, and in a bad record all other
    columns are null. With `null` and `counts_nulls` an int follows: the number of the row's values that became null.
    """
    from pyspark.sql.functions import lit  # noqa: PLC0415 - kept out of what executors import

    mode = request.on_unrepresentable

    def reader_at(place: str) -> PgRowsReader:
        postgres, tasks = Postgres(uri=place), request.tasks
        return rows_reader(postgres, rows, mode=mode, tasks=tasks, counts_nulls=counts_nulls, texts=_texts(request))

    try:
        reader = reader_at(uri)
    except NotConnected:  # the password may have changed since the try was submitted
        if (another := renewed()) is None:
            raise
        reader = reader_at(another)
    names = [column.name for column in reader.columns]
    last = {"bad": ("bad", BAD_TYPE)} | ({"null": ("nulled", "int")} if counts_nulls else {})
    kinds = [column.sent for column in reader.columns] + ([last[mode][1]] if len(reader.schema) > len(names) else [])
    frame = load(request.spark, "pgrows", reader, ", ".join(f"`{at}` {kind}" for at, kind in enumerate(kinds)))
    values = [frame[str(at)].cast(column.spark) for at, column in enumerate(reader.columns)]
    if mode in last:
        name, kind = last[mode]
        values.append(frame[str(len(names))] if len(kinds) > len(names) else lit(None).cast(kind))
        names.append(bad_column(names, name))
    return frame.select(*values).toDF(*names)


def _texts(request: ReadRequest) -> frozenset[str]:
    """The names, in lower case, of the columns that the request's schema reads as texts: PostgreSQL writes them."""
    if request.schema is None:
        return frozenset()
    schema = request.spark.createDataFrame([], request.schema).schema
    return frozenset(field.name.lower() for field in schema if field.dataType.simpleString() == "string")


def rows_reader(
    postgres: Postgres,
    rows: RowSelection,
    *,
    mode: OnUnrepresentable,
    tasks: int,
    counts_nulls: bool = False,
    texts: Container[str] = (),
) -> PgRowsReader:
    """The reader of the selected rows. Where there is something to report, a column follows those of the table."""
    columns = _columns(postgres, rows, as_text=mode == "text", texts=texts)
    report, last = None, []
    if mode != "null":
        report = bad_rows(rows, columns)
        last = [BAD] if report and mode == "bad" else []
    elif counts_nulls:
        report, last = nulled_values(columns), [pa.int32()]
    kinds = [*(_arrow_type(column.sent) for column in columns), *last]
    return PgRowsReader(
        postgres=postgres,
        table=rows.table,
        queries=queries(rows, columns, tasks=tasks, last=report),
        # Columns are named by number, because the names of a table's columns may differ in case only.
        schema=pa.schema([(str(at), kind) for at, kind in enumerate(kinds)]),
        columns=columns,
        has_reports=report is not None and mode != "null",
        keeps_bad=mode == "bad",
    )


def _arrow_type(spark: str) -> pa.DataType:
    if spark.startswith("array<"):
        return pa.list_(_arrow_type(spark[len("array<") : -1]))
    return _ARROW_TYPES[spark]


def _columns(postgres: Postgres, rows: RowSelection, *, as_text: bool, texts: Container[str]) -> list[TableColumn]:
    with postgres.cursor(rows.table) as cursor:
        cursor.execute(COLUMNS.format(table=literal(table_sql(rows.table))))
        columns = [
            TableColumn(
                name=name, postgres=kind, base=base, has_cast=has_cast, key_place=place, is_unchecked=is_unchecked
            )
            for name, kind, base, has_cast, place, is_unchecked in cursor.fetchall()
        ]
    return [
        replace(column, as_text=(as_text and column.unrepresentable is not None) or column.name.lower() in texts)
        for column in columns
    ]
