"""Read good rows and bad records in one go, and count, describe and separate them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Any

from pyspark import StorageLevel
from pyspark.errors import PySparkException
from pyspark.sql import functions as sql
from pyspark.sql.types import StructType

from asset_job.errors import NoRetry
from asset_job.ingest.plan import VALUE_IN_REASON, BadRecordSummary, IngestInput, IngestJobOptions, RecordCounts
from asset_job.sources.options import NAMES
from asset_job.sources.readers import inferred_schema, read_with_bad
from asset_job.sources.request import ReadRequest, bad_column, quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from asset_job.runs import Run

_SHOWN = 3
"""How many bad records a sentence names."""
_LONGEST_REASON = 300


def inferred(run: Run, given: IngestInput, options: IngestJobOptions) -> str:
    """The schema of an input, as Spark's DDL. Raises `AssetJobError`."""
    return inferred_schema(_request(run, given, options, None), given.items)


def widened(
    run: Run, inputs: Sequence[IngestInput], options: IngestJobOptions, schema: str
) -> tuple[str, list[IngestInput]]:
    """The schema with the columns that only the inputs have added at its end, and the inputs with their own columns."""
    fields, with_columns = list(fields_of(run, schema)), []
    for each in inputs:
        own = fields_of(run, inferred(run, each, options))
        known = {field.name.lower() for field in fields}
        fields += [field for field in own if field.name.lower() not in known]
        with_columns.append(replace(each, columns=tuple(field.name for field in own)))
    return StructType(fields).toDDL(), with_columns


def joined(run: Run, schema: str, stored: str | None) -> str:
    """A schema with the columns that only the stored schema has added at its end."""
    fields = list(fields_of(run, schema))
    known = {field.name.lower() for field in fields}
    more = [field for field in fields_of(run, stored) if field.name.lower() not in known] if stored else []
    return StructType(fields + more).toDDL()


def fields_of(run: Run, schema: str) -> StructType:
    """The columns of a schema. Raises `NoRetry` if it is not Spark's DDL, or has names that Spark cannot tell apart."""
    try:
        fields = run.spark.createDataFrame([], schema).schema
    except PySparkException as error:
        reason = " ".join(str(error).split())[:_LONGEST_REASON]
        raise NoRetry(f"the schema {schema!r} is not Spark's DDL, such as `id long, amount double`: {reason}") from None
    is_exact = str(run.spark.conf.get("spark.sql.caseSensitive")).lower() == "true"
    counts = Counter(name if is_exact else name.lower() for name in fields.names)
    if twins := [name for name in fields.names if counts[name if is_exact else name.lower()] > 1]:
        raise NoRetry(f"the schema has the columns {', '.join(twins)}, which Spark cannot tell apart: rename one")
    return fields


@dataclass(frozen=True, kw_only=True)
class Records:
    """The good rows and bad records of a run's inputs, which are kept on the executors' disks."""

    frame: DataFrame
    """The columns of the schema, then what is wrong with a bad record, and the number of a row's values that became null."""

    @property
    def _bad(self) -> Column:
        return sql.col(quoted(self.frame.columns[-2]))

    @property
    def good(self) -> DataFrame:
        """The rows, in the columns of the schema."""
        return self.frame.where(self._bad.isNull()).select(*(sql.col(quoted(name)) for name in self.frame.columns[:-2]))

    @property
    def bad(self) -> DataFrame:
        """The records that cannot be read as the schema says: the text, the file, the place in it and the reason."""
        names = ("_record", "_file", "_at", "_reason")
        return self.frame.where(self._bad.isNotNull()).select(*(self._bad[name].alias(name) for name in names))

    def counts(self) -> RecordCounts:
        """Read the inputs and count."""
        is_bad, nulled = self._bad.isNotNull(), sql.col(quoted(self.frame.columns[-1]))
        counts = (sql.count_if(~is_bad), sql.count_if(is_bad), sql.sum(self._bad["_count"]), sql.sum(nulled))
        good, bad_rows, bad, nulls = (int(count or 0) for count in self.frame.agg(*counts).collect()[0])
        return RecordCounts(good=good, bad_rows=bad_rows, bad=bad, nulled=nulls)

    def summary(self, counts: RecordCounts) -> BadRecordSummary:
        """What is to be said about the bad records."""
        rejected = self.frame.where(self._bad.isNotNull()).select(self._bad.alias("bad")).select("bad.*")
        kind = sql.regexp_replace("_reason", VALUE_IN_REASON, "''")
        by_kind = rejected.groupBy(kind).agg(sql.sum("_count").alias("times"), sql.min("_reason").alias("reason"))
        [common] = by_kind.orderBy(sql.desc("times"), "reason").limit(1).collect()
        number = sql.expr(r"try_cast(regexp_extract(_at, '(\\d+)', 1) AS bigint)")
        places = rejected.orderBy("_file", number, "_at").limit(_SHOWN).select(sql.concat_ws(" ", "_file", "_at"))
        return BadRecordSummary(
            bad=counts.bad,
            records=counts.good + counts.bad,
            reason=str(common["reason"])[:_LONGEST_REASON],
            times=int(common["times"]),
            places=[str(row[0]) for row in places.collect()],
        )


@contextmanager
def records(run: Run, inputs: Sequence[IngestInput], options: IngestJobOptions, schema: str) -> Iterator[Records]:
    """Read all inputs once, whatever is done with the records. The disks are freed at the end. Raises `AssetJobError`."""
    fields = fields_of(run, schema)
    frames = [_in_columns(_read(run, each, options, fields), fields) for each in inputs]
    kept = reduce(lambda one, other: one.union(other), frames).persist(StorageLevel.DISK_ONLY)
    try:
        yield Records(frame=kept)
    finally:
        kept.unpersist()


def _read(run: Run, given: IngestInput, options: IngestJobOptions, fields: StructType) -> DataFrame:
    """An input with those columns of the schema that it has. A JSON input has all: its members may be missing."""
    if given.columns is not None and given.format != "json":
        known = {field.name.lower(): field for field in fields}
        fields = StructType([known[name.lower()] for name in given.columns])
    return read_with_bad(_request(run, given, options, fields), given.items)


def _in_columns(frame: DataFrame, fields: StructType) -> DataFrame:
    """The frame with all columns of the schema, those that it lacks as nulls, and its own last two."""
    *names, bad, nulled = frame.columns
    own = {name.lower(): sql.col(quoted(name)) for name in names} | {name: sql.col(quoted(name)) for name in names}
    columns = [
        own.get(field.name, own.get(field.name.lower(), sql.lit(None).cast(field.dataType))).alias(field.name)
        for field in fields
    ]
    names_of_last = (bad_column(fields.names), bad_column(fields.names, "nulled"))
    last = [sql.col(quoted(name)).alias(other) for name, other in zip((bad, nulled), names_of_last, strict=True)]
    return frame.select(*columns, *last)


def _request(run: Run, given: IngestInput, options: IngestJobOptions, schema: Any) -> ReadRequest:
    return ReadRequest(
        spark=run.spark,
        connections=run.connections,
        format=given.format,
        schema=schema,
        connection=options.connection,
        missing=options.missing,
        on_unrepresentable=options.on_unrepresentable,
        options=_options_of(given.format, options.input_options),
    )


def _options_of(kind: str | None, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Those options that a format has; rows have none."""
    names = {name.lower() for name in NAMES.get(kind or "", ())}
    return {name: value for name, value in given.items() if name.lower() in names}


def deduplicated(frame: DataFrame, existing: DataFrame | None, key: Sequence[str]) -> DataFrame:
    """One row for each key, and none whose key is among the `existing` rows. Two nulls are equal."""
    distinct = frame.dropDuplicates(list(key))
    if existing is None:
        return distinct
    same = [distinct[quoted(name)].eqNullSafe(existing[quoted(name)]) for name in key]
    return distinct.join(existing, reduce(lambda one, other: one & other, same), "left_anti")
