"""DataFrames of files on S3 through `s3files`, read as Spark's own parsers would, so that a file means the same wherever it is.

Arrow parses the lines as far as it reads what Spark's parser would; options and settings can rule that out.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import pyspark
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.types import StructType

from asset_job.errors import FileUnreadable, SourceFailed
from asset_job.sources import csv_lines, json_lines
from asset_job.sources.arrow import arrow_schema, load
from asset_job.sources.by_arrow import LineSchema
from asset_job.sources.csv_header import Header, header_of
from asset_job.sources.csv_lines import ReadCsv
from asset_job.sources.json_lines import ReadJson
from asset_job.sources.request import ReadRequest, S3File
from asset_job.sources.s3_objects import S3Access, codec_of, errors_naming
from asset_job.sources.s3files import ReadFile, ReadLines, ReadParquet, S3FilesReader, first_line_of, parquet_columns
from asset_job.sources.shares import split_files

Result = TypeVar("Result")
_LARGEST_SHARE = 128 << 20
_SPARK = tuple(int(part) for part in pyspark.__version__.split(".")[:2])
_PARSES_FRAMES = (4, 2)
_PLAIN_JSON = ()
_PLAIN_CSV = ("columnNameOfCorruptRecord", "header", "sep", "delimiter")
"""The options that do not force all lines to be parsed by Spark."""


@dataclass(frozen=True, kw_only=True)
class S3Frames:
    """The DataFrames of files on S3."""

    request: ReadRequest
    access: S3Access
    files: Sequence[S3File]

    def frame(self) -> DataFrame:
        """The DataFrame that the request asks for. Raises `AssetJobError`."""
        request = self.request
        if str(request.options.get("multiLine")).lower() == "true":
            raise SourceFailed(
                "only Spark's own reader reads records of several lines: give the job spark.packages with hadoop-aws"
            )
        match request.format_of([file.key for file in self.files]):
            case "parquet":
                return self.parquet()
            case "csv":
                return self._csv()
            case "json":
                return self._json()
            case _:
                return self._lines(ReadLines())

    def _json(self) -> DataFrame:
        request = self.request
        lines = self._no_lines() if request.schema is not None else self._lines(ReadLines())
        columns = self._parsed("json", lines, request.options)
        rows = self._rows(columns)
        by_arrow = ReadJson.of(rows) if self._is_plain(_PLAIN_JSON) and rows.corrupt not in columns.columns else None
        if by_arrow is not None:
            return json_lines.rows_of(self._loaded(by_arrow, rows.mixed), rows)
        return columns if request.schema is None else self._parsed("json", self._lines(ReadLines()), request.options)

    def _no_lines(self) -> DataFrame:
        """An empty frame of lines, to learn the columns from. A data source would take a sixth of a second."""
        return self.request.spark.createDataFrame([], "value string")

    def _is_plain(self, plain: Container[str]) -> bool:
        """Whether no option and no setting can make Spark's parser read other values than Arrow."""
        policy = self.request.spark.conf.get("spark.sql.legacy.timeParserPolicy")
        return policy != "LEGACY" and all(option in plain for option in self.request.options)

    def _rows(self, columns: DataFrame) -> LineSchema:
        return LineSchema(schema=columns.schema, corrupt=self._corrupt)

    @property
    def _corrupt(self) -> str:
        """The name of the column for the text of records that do not fit. No file has this column."""
        corrupt = self.request.options.get("columnNameOfCorruptRecord")
        return str(corrupt or self.request.spark.conf.get("spark.sql.columnNameOfCorruptRecord"))

    def parquet(self, *, from_path: Sequence[str] = ()) -> DataFrame:
        """The DataFrame of Parquet files. The columns `from_path` are not in the files; their folders encode the values."""
        if self.request.schema is None:
            columns = self._first_of(lambda file: parquet_columns(self.access, file))
            if columns is None:
                raise SourceFailed("none of the files can be read, so the columns are unknown: give a schema")
            empty = self.request.spark.createDataFrame(columns.empty_table())
        else:
            empty = self.request.spark.createDataFrame([], self.request.schema)
        return self._loaded(ReadParquet(schema=arrow_schema(empty), from_path=from_path), empty.schema)

    def _lines(self, how: ReadLines) -> DataFrame:
        return self._loaded(how, "value string")

    def _loaded(self, read_file: ReadFile, columns: StructType | str) -> DataFrame:
        skip = self.request.missing == "skip"

        def may_divide(file: S3File) -> bool:
            """Whether tasks may read parts of a file. Not if parts could be of two versions, or be skipped one by one."""
            return not skip and file.etag is not None and codec_of(file) is None

        shares = split_files(self.files, tasks=self.request.tasks, most=_LARGEST_SHARE, may_divide=may_divide)
        reader = S3FilesReader(access=self.access, shares=shares, read_file=read_file, skip=skip)
        return load(self.request.spark, "s3files", reader, columns)

    def _csv(self) -> DataFrame:
        """The DataFrame of CSV files. Tasks check the header of each file and drop it, so that Spark sees no header."""
        request = self.request
        options = {**request.options, "header": False}
        has_header = str(request.options.get("header", True)).lower() == "true"
        names = self._column_names() if has_header else None
        comment, dialect = request.options.get("comment"), _dialect(request.options)
        header = None if names is None else Header(names=names, dialect=dialect, comment=comment)
        if request.schema is None:
            columns = self._parsed("csv", self._csv_lines(header), {"inferSchema": True, **options})
            columns = columns.toDF(*names) if names else columns
        else:
            columns = self._parsed("csv", self._no_lines(), options)
        rows = self._rows(columns)
        by_arrow = ReadCsv.of(rows, dialect.get("delimiter", ","), header) if self._is_plain(_PLAIN_CSV) else None
        if by_arrow is not None:
            return csv_lines.rows_of(self._loaded(by_arrow, rows.mixed), rows, options)
        return columns if request.schema is None else self._parsed("csv", self._csv_lines(header), options)

    def _csv_lines(self, header: Header | None) -> DataFrame:
        """The lines that Spark's reader of files does not skip as blank. Given lines, it would skip fewer."""
        return self._lines(ReadLines(header=header)).where(sql.col("value").rlike(csv_lines.NOT_BLANK))

    def _parsed(self, kind: str, lines: DataFrame, options: Mapping[str, Any]) -> DataFrame:
        """The lines as Spark's own parser reads them.

        Before Spark 4.2 the Python API takes an RDD only, which would bring each line through Python once more.
        """
        spark, schema = self.request.spark, self.request.schema
        reader = spark.read.options(**options)
        if schema is not None:
            reader = reader.schema(schema)
        if _SPARK >= _PARSES_FRAMES:
            return getattr(reader, kind)(lines)  # type: ignore[no-any-return]
        java: Any = spark._jvm  # noqa: SLF001 - the JVM's reader takes a Dataset of lines
        texts = getattr(lines._jdf, "as")(java.org.apache.spark.sql.Encoders.STRING())  # noqa: SLF001
        return DataFrame(getattr(reader._jreader, kind)(texts), spark)  # noqa: SLF001

    def _column_names(self) -> list[str]:
        """The names in the header: the schema's without the column for corrupt records, or else those of the first file."""
        request, options = self.request, self.request.options
        if request.schema is not None:
            columns = request.spark.createDataFrame([], request.schema).columns
            return [name for name in columns if name != self._corrupt]
        line = self._first_of(lambda file: first_line_of(self.access, file, options.get("comment")))
        if line is None:
            raise SourceFailed(
                "none of the files has a line: give a schema, or skip empty files by the watcher's min_size"
            )
        return header_of(line, _dialect(options))

    def _first_of(self, look: Callable[[S3File], Result | None]) -> Result | None:
        """The result of `look` for the first file for which it is not None."""
        for file in self.files:
            try:
                with errors_naming(file):
                    result = look(file)
            except FileUnreadable:
                if self.request.missing == "fail":
                    raise
            else:
                if result is not None:
                    return result
        return None


def _dialect(options: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of Python's csv that correspond to Spark's options."""
    separator = options.get("sep") or options.get("delimiter")
    marks = {"delimiter": "\t" if separator == r"\t" else separator, "quotechar": options.get("quote")}
    return {name: mark for name, mark in marks.items() if mark}
