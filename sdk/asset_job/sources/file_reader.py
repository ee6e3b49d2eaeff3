"""Read files in tasks: each file is opened as the version that was detected, parsed, and handed to Spark in batches."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Final, Generic, Literal, TypeAlias, TypeVar

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from asset_job.errors import BadRecordFound, FileInvalid, FileUnreadable, SourceFailed
from asset_job.sources.records import LONGEST_BAD, BadRecord, OpenFile, Parsed, RecordParser, SchemaInference
from asset_job.sources.request import SourceFile

log = logging.getLogger("asset_job")

File = TypeVar("File", bound=SourceFile)
Opening: TypeAlias = Callable[[], AbstractContextManager[OpenFile]]
"""Opens a file, and checks at the end that it was read as one version."""
BadRecords = Literal["fail", "keep", "drop"]
BAD: Final = pa.struct(
    [
        pa.field("_record", pa.string()),
        pa.field("_file", pa.string()),
        pa.field("_at", pa.string()),
        pa.field("_reason", pa.string()),
        pa.field("_count", pa.int64()),
    ]
)
"""What is kept of a bad record."""
_HELD: Final = 64 << 20
"""Bytes of a file's rows that are held where the file may be left out. Of a file with more, a broken end fails the read."""
_TOGETHER: Final = 1_000
"""Bad records in one batch."""


class FileAccess(ABC, Generic[File]):
    """A place where files are. It is pickled for executors."""

    @abstractmethod
    def opened(self, files: Iterable[File]) -> Iterator[tuple[File, Opening]]:
        """The files in their order, each with a call that opens it, or raises why it cannot be opened."""

    @abstractmethod
    def errors(self, file: File) -> AbstractContextManager[None]:
        """Turn what fails in the block into `FileUnreadable` or `SourceFailed`, with a sentence that names the file."""


@contextmanager
def errors_naming(access: FileAccess[File], file: File) -> Iterator[None]:
    """Turn what fails in the block into an error of the SDK, with a sentence that names the file."""
    with access.errors(file):
        try:
            yield
        except (pa.ArrowException, ValueError, EOFError) as error:
            reason = next(iter(str(error).splitlines()), type(error).__name__)
            raise FileInvalid(f"{file.name} cannot be read: {reason}; correct the file") from None


@dataclass(frozen=True, kw_only=True)
class FilesReader(DataSourceReader, Generic[File]):
    """Reads one share of the files in each task. Columns are named by number; kept bad records come in one more column."""

    access: FileAccess[File]
    shares: Sequence[Sequence[File]]
    parser: RecordParser
    bad: BadRecords
    skip: bool
    """Whether a file of which nothing can be read is left out: with a warning if it is gone, as a bad record if it is invalid."""

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(share) for share in self.shares]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        for file, opening in self.access.opened(partition.value):
            bad: list[BadRecord] = []
            for parsed in self._parsed(file, opening):
                if isinstance(parsed, pa.RecordBatch):
                    kept = [pa.nulls(parsed.num_rows, BAD)] if self.bad == "keep" else []
                    yield _by_number([*parsed.columns, *kept])
                elif self.bad == "fail":
                    raise BadRecordFound(f"{file.name}, {parsed.at}: {parsed.reason}; {_REMEDY}")
                elif self.bad == "keep":
                    bad.append(parsed)
                    if len(bad) == _TOGETHER:
                        yield self._bad_batch(file, bad)
                        bad = []
            if bad:
                yield self._bad_batch(file, bad)

    def _parsed(self, file: File, opening: Opening) -> Iterator[Parsed]:
        """What a file holds. Where it may be left out, that is held until the file has shown to be whole, if it is not too much."""
        held: list[Parsed] = []
        room = _HELD if self.skip else 0
        try:
            with errors_naming(self.access, file), opening() as opened:
                for parsed in self.parser.parse(opened):
                    held.append(parsed)
                    room -= parsed.nbytes if isinstance(parsed, pa.RecordBatch) else len(parsed.record)
                    if room <= 0:
                        yield from held
                        held = []
        except (FileUnreadable, FileInvalid) as error:
            if not self.skip or room <= 0:
                raise
            log.warning("skipped: %s", error)
            if isinstance(error, FileInvalid) and self.bad == "keep":
                yield BadRecord(record="", at="file", reason=str(error))
            return
        yield from held

    def _bad_batch(self, file: File, bad: Sequence[BadRecord]) -> pa.RecordBatch:
        records = [
            {
                "_record": record.record[:LONGEST_BAD],
                "_file": file.name,
                "_at": record.at,
                "_reason": record.reason,
                "_count": record.count,
            }
            for record in bad
        ]
        nulls = [pa.nulls(len(bad), field.type) for field in self.parser.columns]
        return _by_number([*nulls, pa.array(records, BAD)])


def _by_number(columns: Sequence[pa.Array]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(columns, [str(at) for at in range(len(columns))])


_REMEDY: Final = (
    "correct the file, or read with a schema that has the column for corrupt records, or with mode='DROPMALFORMED'"
)


@dataclass(frozen=True, kw_only=True)
class InferenceReader(DataSourceReader, Generic[File]):
    """Infers in each task what one share of the files shows of its columns."""

    access: FileAccess[File]
    shares: Sequence[Sequence[File]]
    inference: SchemaInference
    skip: bool

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(share) for share in self.shares]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        results = list(self.results(partition.value))
        yield pa.RecordBatch.from_arrays([pa.array(results, pa.string())], ["result"])

    def results(self, files: Iterable[File]) -> Iterator[str]:
        """What each file shows."""
        for file, opening in self.access.opened(files):
            try:
                with errors_naming(self.access, file), opening() as opened:
                    yield self.inference.inferred(opened)
            except SourceFailed as error:
                if not self.skip or not isinstance(error, (FileUnreadable, FileInvalid)):
                    raise
