"""The columns of a table in the types of a schema: a value is cast only if nothing of it is lost, in every time zone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from pyspark.sql import Column, DataFrame, types
from pyspark.sql import functions as sql
from pyspark.sql.types import StructField, StructType

from asset_job.errors import SourceInvalid

_WHOLE: Final = r"^[+-]?\d+$"
_TEXTS: Final = {
    types.BooleanType: r"^(?i:true|false|t|f)$",
    types.DateType: r"^\d{4}-\d\d-\d\d$",
    types.TimestampType: r"^\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d{1,6})?([+-]\d\d(:?\d\d)?|Z)$",
    types.TimestampNTZType: r"^\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d{1,6})?$",
    types.FractionalType: r"^([+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|NaN|[+-]?Infinity)$",
    types.IntegralType: _WHOLE,
}
"""Type -> the forms in which a text is its value."""
_MOMENTS: Final = (types.DateType, types.TimestampNTZType)


@dataclass(frozen=True, kw_only=True)
class Cast:
    """A column that becomes a field of a schema."""

    column: Column
    kind: types.DataType
    """The column's type."""
    field: StructField

    def check(self, table: str) -> None:
        """Raise `SourceInvalid` for types of which one has a time zone and the other has none."""
        pair = (self.kind, self.field.dataType)
        if any(
            isinstance(one, types.TimestampType) and isinstance(other, _MOMENTS) for one, other in (pair, pair[::-1])
        ):
            raise SourceInvalid(
                f"the column {self.field.name} of {table} has the type {self.kind.simpleString()}, which is "
                f"{self.field.dataType.simpleString()} only in one time zone: correct the schema, and convert it after the read"
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
            return sql.when(self.column.rlike(self._form), cast)
        return sql.when(cast.try_cast(self.kind).eqNullSafe(self.column), cast)

    @property
    def _form(self) -> str:
        """The form in which a text is a value of the field's type."""
        kind = self.field.dataType
        if isinstance(kind, types.DecimalType):
            return rf"^[+-]?\d*\.?\d{{0,{kind.scale}}}0*$" if kind.scale else r"^[+-]?\d+(\.0*)?$"
        return next((form for base, form in _TEXTS.items() if isinstance(kind, base)), r"(?s).*")

    @cached_property
    def fault(self) -> Column:
        """What is wrong with a value that does not fit; null with others."""
        kind = self.field.dataType.simpleString()
        sentence = sql.lit(f"the column {self.field.name} has the type {kind} in the schema, and there is ")
        missing = self.column.isNotNull() & self.value.isNull()
        return sql.when(missing, sql.concat(sentence, self.column.cast("string")))


def with_schema(frame: DataFrame, schema: StructType, table: str, *, last: int) -> DataFrame:
    """The columns of a table's frame that a schema names, in its types. The `last` columns are those of `read_with_bad`.

    A value that does not fit makes its row bad; without such columns it raises `SourceInvalid` in the task.
    """
    numbered = frame.toDF(*map(str, range(len(frame.columns))))
    fields = frame.schema.fields[: len(frame.columns) - last]
    casts = [_cast(numbered, fields, field, table) for field in schema]
    faults = [cast.fault for cast in casts if not cast.is_same]
    fault = sql.coalesce(*faults) if faults else sql.lit(None).cast("string")
    if not last:
        sentence = sql.concat(sql.lit(f"SourceInvalid: a value of the table {table} does not fit the schema: "), fault)
        raised = [
            sql.when(fault.isNull(), each.value).otherwise(sql.raise_error(sentence).cast(each.field.dataType))
            for each in casts
        ]
        return numbered.select(*(cast.value if cast.is_same else raised[at] for at, cast in enumerate(casts))).toDF(
            *schema.names
        )
    bad, nulled = (numbered[str(len(fields) + at)] for at in range(2))
    record = sql.to_json(sql.struct(*(numbered[str(at)].alias(field.name) for at, field in enumerate(fields))))
    told = sql.struct(
        record.alias("_record"),
        sql.lit(table).alias("_file"),
        sql.lit("a row").alias("_at"),
        fault.alias("_reason"),
        sql.lit(1).cast("long").alias("_count"),
    )
    whole = numbered.withColumn("bad", sql.coalesce(bad, sql.when(fault.isNotNull(), told)))
    good = sql.col("bad").isNull()
    values = [sql.when(good, cast.value) for cast in casts]
    return whole.select(*values, sql.col("bad"), nulled).toDF(*schema.names, *frame.columns[-2:])


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
