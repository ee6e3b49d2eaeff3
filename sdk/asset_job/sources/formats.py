"""The formats of files: what parses each, what infers its columns, and whether tasks may read parts of one file."""

from __future__ import annotations

import codecs
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

import pyarrow as pa

from asset_job.errors import SourceInvalid
from asset_job.sources.lines import LinesParser
from asset_job.sources.options import ReadOptions
from asset_job.sources.records import OpenFile, RecordParser, SchemaInference


class FileFormat(ABC):
    """A format of files. Its parser is imported when files of the format are read."""

    name: ClassVar[str]

    @abstractmethod
    def parser(self, columns: pa.Schema, options: ReadOptions) -> RecordParser: ...

    @abstractmethod
    def inference(self, options: ReadOptions) -> SchemaInference: ...

    def divides(self, options: ReadOptions, file: OpenFile) -> bool:  # noqa: ARG002 - for other formats
        """Whether a file can be divided where any line ends, or between row groups."""
        return False

    def places(self, options: ReadOptions, file: OpenFile, places: Sequence[int]) -> Sequence[int]:  # noqa: ARG002
        """Where to divide a file that may be divided, near the places that would be best."""
        return places


class CsvFormat(FileFormat):
    """CSV by RFC 4180."""

    name = "csv"

    def parser(self, columns: pa.Schema, options: ReadOptions) -> RecordParser:
        from asset_job.sources.csv.parser import CsvParser  # noqa: PLC0415

        return CsvParser(columns=columns, options=options)

    def inference(self, options: ReadOptions) -> SchemaInference:
        from asset_job.sources.csv.inference import CsvInference  # noqa: PLC0415

        return CsvInference(options=options)

    def divides(self, options: ReadOptions, file: OpenFile) -> bool:
        return _is_utf8(options, file)

    def places(self, options: ReadOptions, file: OpenFile, places: Sequence[int]) -> Sequence[int]:
        from asset_job.sources.csv.division import line_ends, record_ends  # noqa: PLC0415

        return (record_ends if options.multi_line else line_ends)(file, options, places)


class JsonFormat(FileFormat):
    """JSON by RFC 8259: values one after another."""

    name = "json"

    def parser(self, columns: pa.Schema, options: ReadOptions) -> RecordParser:
        from asset_job.sources.json.parser import JsonParser  # noqa: PLC0415

        return JsonParser(columns=columns, options=options)

    def inference(self, options: ReadOptions) -> SchemaInference:
        from asset_job.sources.json.inference import JsonInference  # noqa: PLC0415

        return JsonInference(options=options)


@dataclass(frozen=True)
class ParquetFormat(FileFormat):
    """Parquet."""

    name = "parquet"
    from_path: tuple[str, ...] = ()
    """The columns whose values are in a file's path, as in a table's partitions, and not in the file."""

    def parser(self, columns: pa.Schema, options: ReadOptions) -> RecordParser:
        from asset_job.sources.parquet.parser import ParquetParser  # noqa: PLC0415

        return ParquetParser(columns=columns, options=options, from_path=self.from_path)

    def inference(self, options: ReadOptions) -> SchemaInference:
        from asset_job.sources.parquet.inference import ParquetInference  # noqa: PLC0415

        return ParquetInference(options=options)

    def divides(self, options: ReadOptions, file: OpenFile) -> bool:  # noqa: ARG002 - each row group stands alone
        return True


class TextFormat(FileFormat):
    """Lines of text, each a row of one column."""

    name = "text"

    def parser(self, columns: pa.Schema, options: ReadOptions) -> RecordParser:
        if columns.types != [pa.string()]:
            raise SourceInvalid(
                f"files of the format text have one column of texts, and the schema has {', '.join(columns.names)}: "
                "give a schema such as `value string`, or another format"
            )
        return LinesParser(columns=columns, options=options)

    def inference(self, options: ReadOptions) -> SchemaInference:  # noqa: ARG002 - always the same
        return _OneText()

    def divides(self, options: ReadOptions, file: OpenFile) -> bool:
        return _is_utf8(options, file)


@dataclass(frozen=True)
class _OneText:
    """Every file of text has the same column."""

    def inferred(self, file: OpenFile) -> str:  # noqa: ARG002
        return ""

    def schema(self, results: Sequence[str]) -> str:  # noqa: ARG002
        return "value string"


def _is_utf8(options: ReadOptions, file: OpenFile) -> bool:
    """Whether a line end can be seen in the bytes of a file."""
    if options.line_separator is not None or options.encoding is not None:
        return False
    return not file.seekable().read(4).startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_BE))


FORMATS: Final = {kind.name: kind for kind in (CsvFormat(), JsonFormat(), ParquetFormat(), TextFormat())}
