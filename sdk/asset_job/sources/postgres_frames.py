"""Rows of PostgreSQL: by `pgrows`, or by Spark's JDBC."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import SourceFailed, require
from .postgres_sql import COLUMNS, TableColumn, address, jdbc, literal, predicates, queries, table_sql
from .request import ReadRequest, Rows, connection_of, quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructField

    from .pgrows import Postgres


def rows_of_postgres(request: ReadRequest, rows: Rows) -> DataFrame:
    uri = address(connection_of(request.connections, "postgres", request.connection))
    if request.has_jar("postgresql") and not rows.keys:
        frame = _by_jdbc(request, rows, uri)
    else:
        require("pyarrow", "adbc_driver_postgresql")
        frame = _by_adbc(request, rows, uri)
    return frame if request.schema is None else _with_schema(frame, request, rows)


def _by_jdbc(request: ReadRequest, rows: Rows, uri: str) -> DataFrame:
    url, properties = jdbc(uri)
    conditions = predicates(rows, tasks=request.tasks) or ["false"]
    properties = {"driver": "org.postgresql.Driver", **properties, **request.options}
    return request.spark.read.jdbc(url, table_sql(rows.table), predicates=conditions, properties=properties)


def _by_adbc(request: ReadRequest, rows: Rows, uri: str) -> DataFrame:
    from pyspark.sql.functions import col  # noqa: PLC0415 - only jobs that read need it

    from .arrow import arrow_schema, load  # noqa: PLC0415 - needs what was just required
    from .pgrows import PgRowsReader, Postgres  # noqa: PLC0415

    postgres = Postgres(uri=uri)
    columns = _columns(postgres, rows)
    sent = request.spark.createDataFrame([], ", ".join(f"{quoted(column.name)} {column.sent}" for column in columns))
    reader = PgRowsReader(
        postgres=postgres, queries=queries(rows, columns, tasks=request.tasks), schema=arrow_schema(sent)
    )
    frame = load(request.spark, "pgrows", reader, sent.schema)
    return frame.select(*(col(quoted(column.name)).cast(column.spark).alias(column.name) for column in columns))


def _columns(postgres: Postgres, rows: Rows) -> list[TableColumn]:
    with postgres.cursor() as cursor:
        cursor.execute(COLUMNS.format(table=literal(table_sql(rows.table))))
        return [TableColumn(name=name, postgres=kind, key_place=place) for name, kind, place in cursor.fetchall()]


def _with_schema(frame: DataFrame, request: ReadRequest, rows: Rows) -> DataFrame:
    """The columns that the schema names, in its types; a value that does not fit fails the job."""
    there = {field.name.lower(): field for field in frame.schema}
    schema = request.spark.createDataFrame([], request.schema).schema
    lacking = [field.name for field in schema if field.name.lower() not in there]
    if lacking:
        raise SourceFailed(f"the table {rows.table} has no column {', '.join(lacking)}: correct the schema")
    return frame.select(*(_fitting(there[field.name.lower()], field, rows.table) for field in schema))


def _fitting(column: StructField, field: StructField, table: str) -> Column:
    from pyspark.sql import functions as sql  # noqa: PLC0415

    value = sql.col(quoted(column.name))
    if column.dataType == field.dataType:
        return value.alias(field.name)
    fault = sql.concat(
        sql.lit(f"SourceFailed: a value of the table {table} does not fit the schema: in {field.name} there is "),
        value.cast("string"),
    )
    cast = value.try_cast(field.dataType)
    raised = sql.raise_error(fault).cast(field.dataType)
    return sql.when(value.isNull() | cast.isNotNull(), cast).otherwise(raised).alias(field.name)
