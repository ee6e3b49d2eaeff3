"""Rows of PostgreSQL: by `pgrows`, or by Spark's JDBC."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .connections import connection_of
from .failures import SourceFailed, require
from .items import Rows
from .postgres_sql import COLUMNS, Column, address, jdbc, literal, predicates, queries, table_sql
from .request import Reading, quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from .pgrows import Postgres


def rows_of_postgres(reading: Reading, rows: Rows) -> DataFrame:
    uri = address(connection_of(reading.connections, "postgres", reading.connection))
    if reading.has_jar("postgresql") and not rows.keys:
        frame = _by_jdbc(reading, rows, uri)
    else:
        require("pyarrow", "adbc_driver_postgresql")
        frame = _by_adbc(reading, rows, uri)
    return frame if reading.schema is None else _as_wanted(frame, reading, rows)


def _by_jdbc(reading: Reading, rows: Rows, uri: str) -> DataFrame:
    url, properties = jdbc(uri)
    found = predicates(rows, tasks=reading.tasks) or ["false"]
    properties = {"driver": "org.postgresql.Driver", **properties, **reading.options}
    return reading.spark.read.jdbc(url, table_sql(rows.table), predicates=found, properties=properties)


def _by_adbc(reading: Reading, rows: Rows, uri: str) -> DataFrame:
    from pyspark.sql.functions import col  # noqa: PLC0415 - only jobs that read need it

    from .arrow_schemas import arrow_schema, load  # noqa: PLC0415 - needs what was just required
    from .pgrows import PgRowsReader, Postgres, pgrows  # noqa: PLC0415

    postgres = Postgres(uri=uri)
    columns = _columns(postgres, rows)
    sent = ", ".join(f"{quoted(column.name)} {column.sent}" for column in columns)
    reader = PgRowsReader(
        postgres=postgres,
        queries=queries(rows, columns, tasks=reading.tasks),
        schema=arrow_schema(reading.spark.createDataFrame([], sent)),
    )
    frame = load(reading.spark, pgrows(reader, sent))
    return frame.select(*(col(quoted(column.name)).cast(column.spark).alias(column.name) for column in columns))


def _columns(postgres: Postgres, rows: Rows) -> list[Column]:
    with postgres.cursor() as cursor:
        cursor.execute(COLUMNS.format(table=literal(table_sql(rows.table))))
        return [Column(name=name, postgres=kind, key_place=place) for name, kind, place in cursor.fetchall()]


def _as_wanted(frame: DataFrame, reading: Reading, rows: Rows) -> DataFrame:
    """The columns that the schema names, in its types; a value that does not fit fails the job (Spark's ANSI mode)."""
    from pyspark.sql.functions import col  # noqa: PLC0415

    wanted = reading.spark.createDataFrame([], reading.schema).schema
    there = {name.lower() for name in frame.columns}
    lacking = [field.name for field in wanted if field.name.lower() not in there]
    if lacking:
        raise SourceFailed(f"the table {rows.table} has no column {', '.join(lacking)}: correct the schema")
    return frame.select(*(col(quoted(field.name)).cast(field.dataType).alias(field.name) for field in wanted))
