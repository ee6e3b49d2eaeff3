"""DataFrames of files, on S3 and in folders alike: their columns, their division among tasks, and what becomes of bad records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Generic

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.types import DataType, LongType, StringType, StructField, StructType

from asset_job.errors import SourceInvalid
from asset_job.sources.arrow import arrow_schema, load
from asset_job.sources.file_reader import BAD, BadRecords, File, FileAccess, FilesReader, InferenceReader, errors_naming
from asset_job.sources.formats import FileFormat
from asset_job.sources.options import ReadOptions
from asset_job.sources.packing import codec_by_name
from asset_job.sources.request import ReadRequest, bad_column
from asset_job.sources.shares import split_files

_LARGEST_SHARE: Final = 128 << 20
_AT_ONCE: Final = 16 << 20
"""Bytes of files whose columns the driver infers itself, which is quicker than tasks."""
BAD_COLUMNS: Final = tuple(field.name for field in BAD)
"""`_record`, `_file`, `_at`, `_reason` and `_count`: the columns that tell what is wrong with a bad record."""


@dataclass(frozen=True)
class FileFrames(Generic[File]):
    """The DataFrames of files in one place."""

    request: ReadRequest
    access: FileAccess[File]
    files: Sequence[File]
    format: FileFormat

    def frame(self) -> DataFrame:
        """The good rows. A bad record is treated as the mode says, or goes to the schema's corrupt column."""
        mode = self.options.mode_with(self._corrupt, self.schema.names)
        rows = self._loaded(_TREATED[mode])
        return in_schema(rows, self.schema.names, self._corrupt)

    def with_bad(self) -> DataFrame:
        """Good rows and bad records: the columns of the schema, and the struct `bad_column` of `BAD_COLUMNS`, null in good rows."""
        names = self._fields.names
        return self._loaded("keep").toDF(*names, bad_column(names))

    @cached_property
    def schema(self) -> StructType:
        """The requested columns, or else those that the files show."""
        schema = self.inferred() if self.request.schema is None else self.request.schema
        return self.request.spark.createDataFrame([], schema).schema

    def inferred(self) -> str:
        """The columns that the files show, as Spark's DDL. Raises `SourceFailed`."""
        reader = InferenceReader(
            access=self.access,
            shares=split_files(self.files, tasks=self.request.tasks, most=_LARGEST_SHARE, may_divide=lambda _: False),
            inference=self.format.inference(self.options),
            skip=self.request.missing == "skip",
        )
        if sum(file.size for file in self.files) <= _AT_ONCE:
            results = list(reader.results(self.files))
        else:
            frame = load(self.request.spark, "columns", reader, "result string")
            results = [row["result"] for row in frame.collect()]
        if not results:
            raise SourceInvalid("none of the files can be read, so the columns are unknown: give a schema")
        return reader.inference.schema(results)

    @cached_property
    def options(self) -> ReadOptions:
        return ReadOptions.of(self.format.name, self.request.options)

    @property
    def _corrupt(self) -> str | None:
        """The name of the column for the text of bad records. No file has this column. None: where columns are inferred, all are files'."""
        return self.request.corrupt_column(self.options)

    @cached_property
    def _fields(self) -> StructType:
        """The columns that files have."""
        return StructType([field for field in self.schema if field.name != self._corrupt])

    def _loaded(self, bad: BadRecords) -> DataFrame:
        """The columns, named by number, and, where bad records are kept, what is wrong with them."""
        spark, skip = self.request.spark, self.request.missing == "skip"
        parser = self.format.parser(arrow_schema(spark.createDataFrame([], self._fields)), self.options)
        reader = FilesReader(
            access=self.access,
            shares=split_files(
                self.files,
                tasks=self.request.tasks,
                most=_LARGEST_SHARE,
                may_divide=lambda file: not skip and self._may_divide(file),
                places=self._places,
            ),
            parser=parser,
            bad=bad,
            skip=skip,
        )
        kinds = [field.dataType for field in self._fields] + ([_BAD] if bad == "keep" else [])
        return load(spark, "files", reader, _numbered(kinds))

    def _may_divide(self, file: File) -> bool:
        """Whether tasks may read parts of a file."""
        if not file.is_pinned or codec_by_name(file.name) is not None:
            return False
        (same, opening), *_ = self.access.opened([file])
        with self.access.errors(same), opening() as opened:
            return self.format.divides(self.options, opened)

    def _places(self, file: File, best: Sequence[int]) -> Sequence[int]:
        """Where to divide a file among tasks, near the places that would be best."""
        (same, opening), *_ = self.access.opened([file])
        with errors_naming(self.access, same), opening() as opened:
            return self.format.places(self.options, opened, best)


def in_schema(numbered: DataFrame, names: Sequence[str], corrupt: str | None) -> DataFrame:
    """The columns of a schema with these names. The one called `corrupt` has the texts of bad records.

    `numbered` has the others in their order, named by number, then perhaps what is wrong with bad records.
    """
    plain = [name for name in names if name != corrupt]
    kept = len(numbered.columns) > len(plain)
    text = numbered[str(len(plain))]["_record"] if kept else sql.lit(None).cast("string")
    places = iter(range(len(plain)))
    columns = [text if name == corrupt else numbered[str(next(places))] for name in names]
    return numbered.select(*columns).toDF(*names)


_TREATED: Final[Mapping[str, BadRecords]] = {"PERMISSIVE": "keep", "DROPMALFORMED": "drop", "FAILFAST": "fail"}


def _numbered(kinds: Sequence[DataType]) -> StructType:
    """Columns that are named by number, because a file's names may differ in case only."""
    return StructType([StructField(str(at), kind) for at, kind in enumerate(kinds)])


_BAD: Final = StructType(
    [StructField(field.name, LongType() if field.name == "_count" else StringType()) for field in BAD]
)
