"""The contract between what opens files and what parses a format: a parser turns a file into good rows and bad records.

Parsers are pickled and run in tasks. They know neither Spark nor where a file lies, and they raise nothing for one record.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import IO, Final, Protocol, TypeAlias

import pyarrow as pa

LONGEST_RECORD: Final = 16 << 20
"""The bytes of the longest record that is read (`max_record_bytes`). A longer one fails the run."""
LONGEST_BAD: Final = 1 << 20
"""The characters of a bad record that are kept."""


@dataclass(frozen=True, kw_only=True)
class BadRecord:
    """A record that cannot be read as the schema says."""

    record: str
    """The whole record as the file has it, however many lines it has; bytes that are no text are written as `\\xNN`."""
    at: str
    """Its place in the file: `line 7`, `byte 1024` in a part of a divided file, `row 3` in Parquet."""
    reason: str
    """What is wrong with it, such as `the column amount has the type long, and '1.5' is no whole number`."""
    count: int = 1
    """The records that it stands for: its lines, where the rest of a file cannot be told apart."""


class OpenFile(Protocol):
    """One version of a file, on S3 or in a folder, that is open for reading."""

    @property
    def name(self) -> str:
        """The URL or path, for sentences."""

    @property
    def size(self) -> int:
        """Bytes, packed as they are stored."""

    @property
    def part(self) -> tuple[int, int] | None:
        """The bytes, the second excluded, in which the records that are to be read begin. None: the whole file."""

    def pieces(self) -> Iterator[bytes]:
        """The unpacked bytes in their order, a few megabytes at a time; of a part, whole lines that begin in it.

        A byte order mark is still there. Raises `FileUnreadable` or `FileInvalid`.
        """

    def seekable(self) -> IO[bytes]:
        """The stored bytes for random access. A read may be a request, so read large pieces."""


Parsed: TypeAlias = "pa.RecordBatch | BadRecord"


class RecordParser(Protocol):
    """Parses files of one format into columns of one schema."""

    @property
    def columns(self) -> pa.Schema:
        """The columns of the good rows, in the types in which Spark takes them (see `arrow.arrow_schema`)."""

    def parse(self, file: OpenFile) -> Iterator[Parsed]:
        """The good rows in batches of at most a few megabytes, and the bad records, each exactly once.

        Raises `FileInvalid` for what is wrong with the file as a whole (format, header, a column's type or name).
        """


class SchemaInference(Protocol):
    """Infers the columns of files without a schema."""

    def inferred(self, file: OpenFile) -> str:
        """What one file shows of its columns, as JSON text that `schema` understands."""

    def schema(self, results: Sequence[str]) -> str:
        """The schema that fits all files, as Spark's DDL. Raises `FileInvalid` or `SourceFailed`."""
