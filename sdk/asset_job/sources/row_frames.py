"""DataFrames of rows: their columns in the types of a schema, and what becomes of bad rows.

A value is cast only if nothing of it is lost, in every time zone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

from pyspark.sql import Column, DataFrame, types
from pyspark.sql import functions as sql
from pyspark.sql.types import StructField, StructType

from asset_job.errors import SourceInvalid
from asset_job.sources.frames import BAD_COLUMNS, in_schema
from asset_job.sources.options import ReadOptions
from asset_job.sources.pgrows import BAD_TYPE, rows_by_adbc
from asset_job.sources.postgres_sql import jdbc, predicates
from asset_job.sources.request import OnUnrepresentable, ReadRequest, RowSelection, bad_column
from asset_job.sources.table_names import table_sql

_WHOLE: Final = r"^[+-]?\d+\z"
_TEXTS: Final = {
    types.BooleanType: r"^(?i:true|false|t|f)\z",
    types.DateType: r"^\d{4}-\d\d-\d\d\z",
    types.TimestampType: r"^\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d{1,6})?([+-]\d\d(:?\d\d)?|Z)\z",
    types.TimestampNTZType: r"^\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d{1,6})?\z",
    types.FractionalType: r"^([+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|NaN|[+-]?Infinity)\z",
    types.IntegralType: _WHOLE,
}
"""Type -> the forms in which a text is its value. Java's `$` would also match before a line break at the end."""
_LACKS: Final = {types.DateType: "time zone", types.TimestampNTZType: "time zone", types.NumericType: "unit of time"}
"""Type -> what must be known before a value of it is a moment."""


@dataclass(frozen=True, kw_only=True)
class Cast:
    """A column that becomes a field of a schema."""

    column: Column
    kind: types.DataType
    """The column's type."""
    field: StructField

    def check(self, table: str) -> None:
        """Raise `SourceInvalid` for types of which one is a moment, and the other needs a time zone or a unit to be one."""
        own, intended = self.kind, self.field.dataType
        for one, other in ((own, intended), (intended, own)):
            lacks = next((lack for kind, lack in _LACKS.items() if isinstance(other, kind)), None)
            if isinstance(one, types.TimestampType) and lacks:
                raise SourceInvalid(
                    f"the column {self.field.name} of {table} has the type {own.simpleString()}, which is "
                    f"{intended.simpleString()} only in one {lacks}: correct the schema, and convert it after the read"
                )

    @property
    def is_same(self) -> bool:
        return bool(self.kind == self.field.dataType)

    @cached_property
    def value(self) -> Column:
        """The value; null where it does not fit."""
        if self.is_same:
            return self.column
        cast = self.column.try_cast(self.field.dataType)
        if isinstance(self.kind, types.StringType):
            return sql.when(self.column.rlike(self._form) & ~self._is_beyond(cast), cast)
        return sql.when(cast.try_cast(self.kind).eqNullSafe(self.column), cast)

    def _is_beyond(self, cast: Column) -> Column:
        """Whether only infinity, or only 0, stands for the number in a text."""
        if not isinstance(self.field.dataType, (types.FloatType, types.DoubleType)):
            return sql.lit(False)
        is_infinite = (sql.abs(cast) == float("inf")) & ~self.column.endswith("Infinity")
        return is_infinite | ((cast == 0) & self.column.rlike("^[^eE]*[1-9]"))

    @property
    def _form(self) -> str:
        """The form in which a text is a value of the field's type."""
        kind = self.field.dataType
        if isinstance(kind, types.DecimalType):
            return rf"^[+-]?\d*\.?\d{{0,{kind.scale}}}0*\z" if kind.scale else r"^[+-]?\d+(\.0*)?\z"
        return next((form for base, form in _TEXTS.items() if isinstance(kind, base)), r"(?s).*")

    @cached_property
    def fault(self) -> Column:
        """What is wrong with a value that does not fit; null with others."""
        kind = self.field.dataType.simpleString()
        sentence = sql.lit(f"the column {self.field.name} has the type {kind} in the schema, and there is ")
        missing = self.column.isNotNull() & self.value.isNull()
        return sql.when(missing, sql.concat(sentence, self.column.cast("string")))

    def or_raise(self, sentence: Column) -> Column:
        """The value; one that does not fit raises an error in the task."""
        if self.is_same:
            return self.column
        raised = sql.raise_error(sentence).cast(self.field.dataType)
        return sql.when(self.fault.isNull(), self.value).otherwise(raised)


@dataclass(frozen=True)
class RowFrames:
    """The DataFrames of rows of one table."""

    request: ReadRequest
    rows: RowSelection
    uri: str = field(repr=False)
    renewed: Callable[[], str | None] = lambda: None
    """Returns another `uri` where the password has changed since; None if it has not. Spark's own reader does not ask."""

    def frame(self) -> DataFrame:
        """The good rows. A bad row is treated as the mode says, or goes to the schema's corrupt column."""
        request = self.request
        if request.reader == "spark":
            frame = rows_by_jdbc(request, self.rows, self.uri)
            return frame if request.schema is None else self._cast(frame, self._schema)
        options = ReadOptions.of("rows", request.options)
        corrupt = request.corrupt_column(options)
        names = [] if request.schema is None else self._schema.names
        mode = options.mode_with(corrupt, names)
        if mode == "FAILFAST":
            strict = replace(
                request, on_unrepresentable=_STRICT.get(request.on_unrepresentable, request.on_unrepresentable)
            )
            frame = rows_by_adbc(strict, self.rows, self.uri, renewed=self.renewed)
            return frame if request.schema is None else self._cast(frame, self._schema)
        whole = self._whole(corrupt, keeps_bad=True)
        kept = _numbered(whole).drop(str(len(whole.columns) - 1))
        bad = str(len(kept.columns) - 1)
        if mode == "DROPMALFORMED":
            kept = kept.where(kept[bad].isNull()).drop(bad)
        return in_schema(kept, names or whole.columns[:-2], corrupt)

    def with_bad(self) -> DataFrame:
        """Good rows and bad ones, with the two columns of `read_with_bad`."""
        return self._whole(None, keeps_bad=False)

    def inferred(self) -> str:
        """The table's columns, as Spark's DDL."""
        mode: OnUnrepresentable = "text" if self.request.on_unrepresentable == "text" else "null"
        request = replace(self.request, on_unrepresentable=mode)
        return rows_by_adbc(request, self.rows, self.uri, renewed=self.renewed).schema.toDDL()

    @cached_property
    def _schema(self) -> StructType:
        return self.request.spark.createDataFrame([], self.request.schema).schema

    def _whole(self, corrupt: str | None, *, keeps_bad: bool) -> DataFrame:
        """Good rows and bad ones, in the request's schema but for the column `corrupt`, with the two columns of `read_with_bad`."""
        mode = self.request.on_unrepresentable
        if keeps_bad:
            mode = _KEPT.get(mode, mode)
        request = replace(self.request, on_unrepresentable=mode)
        frame = rows_by_adbc(request, self.rows, self.uri, renewed=self.renewed, counts_nulls=True)
        own = len(frame.columns) - (mode in {"bad", "null"})
        numbered, last = _numbered(frame), sql.col(str(own))
        bad = last if mode == "bad" else sql.lit(None).cast(BAD_TYPE)
        nulled = last if mode == "null" else sql.lit(0)
        names = frame.columns[:own]
        columns = numbered.select(*(sql.col(str(at)) for at in range(own)), bad, nulled)
        whole = columns.toDF(*names, bad_column(names), bad_column(names, "nulled"))
        if self.request.schema is None:
            return whole
        return self._cast(whole, StructType([each for each in self._schema if each.name != corrupt]), last=2)

    def _cast(self, frame: DataFrame, schema: StructType, *, last: int = 0) -> DataFrame:
        """The columns of a table's frame that a schema names, in its types. The `last` columns are those of `read_with_bad`.

        A value that does not fit makes its row bad; without such columns it raises `SourceInvalid` in the task.
        """
        table, numbered = self.rows.table, _numbered(frame)
        fields = frame.schema.fields[: len(frame.columns) - last]
        casts = [_cast(numbered, fields, field, table) for field in schema]
        faults = [cast.fault for cast in casts if not cast.is_same]
        fault = sql.coalesce(*faults) if faults else sql.lit(None).cast("string")
        place = _place(self.rows, numbered, fields)
        if not last:
            sentence = sql.concat(
                sql.lit(f"SourceInvalid: {table} does not fit the schema: "),
                fault,
                sql.lit(", in "),
                place,
                sql.lit(_REMEDY),
            )
            return numbered.select(*(cast.or_raise(sentence) for cast in casts)).toDF(*schema.names)
        bad, nulled = (numbered[str(len(fields) + at)] for at in range(2))
        record = sql.to_json(sql.struct(*(numbered[str(at)].alias(field.name) for at, field in enumerate(fields))))
        kept = (record, sql.lit(None).cast("string"), place, fault, sql.lit(1).cast("long"))
        reason = sql.struct(*(value.alias(name) for value, name in zip(kept, BAD_COLUMNS, strict=True)))
        whole = numbered.withColumn("bad", sql.coalesce(bad, sql.when(fault.isNotNull(), reason)))
        values = [sql.when(sql.col("bad").isNull(), cast.value) for cast in casts]
        return whole.select(*values, sql.col("bad"), nulled).toDF(*schema.names, *frame.columns[-2:])


def rows_by_jdbc(request: ReadRequest, rows: RowSelection, uri: str) -> DataFrame:
    """The rows of the selected ranges through Spark's JDBC reader."""
    url, properties = jdbc(uri)
    conditions = predicates(rows, tasks=request.tasks) or ["false"]
    properties = {"driver": "org.postgresql.Driver", **properties, **request.options}
    return request.spark.read.jdbc(url, table_sql(rows.table), predicates=conditions, properties=properties)


_REMEDY: Final = ": correct the row or the schema, or read with a schema that has the column for corrupt records"
_STRICT: Final[Mapping[OnUnrepresentable, OnUnrepresentable]] = {"bad": "fail"}
"""What a read that keeps no bad rows makes of the words."""
_KEPT: Final[Mapping[OnUnrepresentable, OnUnrepresentable]] = {"fail": "bad"}
"""What a read by a job with a corrupt column, or with a mode, makes of them."""


def _numbered(frame: DataFrame) -> DataFrame:
    """The columns, named by number, because the names of a table's columns may differ in case only."""
    return frame.toDF(*map(str, range(len(frame.columns))))


def _place(rows: RowSelection, numbered: DataFrame, fields: Sequence[StructField]) -> Column:
    """The name of a row: its table, and its id if the table has the column."""
    ids = [numbered[str(at)].cast("string") for at, field in enumerate(fields) if field.name == rows.column]
    return sql.concat_ws("", sql.lit(rows.table), *([sql.lit(f" {rows.column}="), ids[0]] if ids else []))


def _cast(frame: DataFrame, fields: Sequence[StructField], field: StructField, table: str) -> Cast:
    """The cast of the column that has a field's name, or else the only one that has it in another case. Raises `SourceInvalid`."""
    exact = [at for at, own in enumerate(fields) if own.name == field.name]
    places = exact or [at for at, own in enumerate(fields) if own.name.lower() == field.name.lower()]
    if len(places) != 1:
        names = ", ".join(fields[at].name for at in places)
        fault = f"the columns {names}, which differ in case only" if places else f"no column {field.name}"
        raise SourceInvalid(f"the table {table} has {fault}: correct the schema's {field.name}")
    cast = Cast(column=frame[str(places[0])], kind=fields[places[0]].dataType, field=field)
    cast.check(table)
    return cast
