"""The content of a Parquet file: its types as the file means them, and the rows of a part. Broken files are refused by name."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, Final

import pyarrow as pa
from pyarrow import parquet

from asset_job.errors import FileInvalid
from asset_job.sources.packing import BEGINNING, is_of_content, refuse_archive
from asset_job.sources.parquet.sparktypes import INT96, INTERVAL, UUID, mapped
from asset_job.sources.records import OpenFile

_BATCH_ROWS: Final = 16_384
"""Few enough that a batch is converted and sent while the processor still has it in its cache."""
_TOGETHER: Final = 32 << 20
"""Bytes of row groups that are fetched at once, unless a single row group is larger."""
_SMALL: Final = 1 << 20
"""Bytes of the largest file that is fetched as a whole."""
_TAIL: Final = 64 << 10
"""Bytes at the end of a larger file that are fetched first."""
_MAGIC: Final = b"PAR1"
_TEXTS: Final = {"STRING", "ENUM", "JSON"}


@dataclass(frozen=True, kw_only=True)
class RowsRead:
    """Some rows of a file, as pyarrow reads them."""

    before: int
    """The rows of the file before these."""
    batch: pa.RecordBatch
    nanoseconds: pa.RecordBatch | None
    """The columns with INT96 once more, in nanoseconds that may have overflowed; `batch` has whole seconds then."""

    def readings(self, name: str) -> Sequence[pa.Array]:
        """A column as it was read once or twice."""
        more = self.nanoseconds
        return [rows.column(name) for rows in (self.batch, more) if rows is not None and name in rows.schema.names]


@dataclass(frozen=True, kw_only=True)
class ParquetContent:
    """A Parquet file that is open for reading."""

    name: str
    size: int
    part: tuple[int, int] | None
    source: Any
    metadata: Any

    @classmethod
    def of(cls, file: OpenFile) -> ParquetContent:
        """The content of a file whose magic and footer fit. Raises `FileInvalid`."""
        stored = file.seekable()
        size = stored.seek(0, io.SEEK_END)
        stored.seek(0 if size <= _SMALL else size - _TAIL)
        tail = stored.read()
        head = (
            tail[:4] if len(tail) == size else _MAGIC
        )  # of a larger file it would cost a request, and tell nothing more
        if b"PARE" in (head, tail[-4:]):
            raise FileInvalid(f"{file.name} is encrypted, and such Parquet files cannot be read: write it in plain")
        footer = int.from_bytes(tail[-8:-4], "little") + 8
        if size < len(_MAGIC) + footer or footer == 8 or not (head == tail[-4:] == _MAGIC):  # noqa: PLR2004
            stored.seek(0)
            refuse_archive(file.name, stored.read(BEGINNING))
            raise FileInvalid(f"{file.name} is not a Parquet file, or it is incomplete: write it again")
        if footer > len(tail):
            stored.seek(size - footer)
            tail = stored.read()
        with broken(file.name):
            metadata = parquet.read_metadata(pa.BufferReader(tail[-footer:]))
            if sum(metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)) != metadata.num_rows:
                raise pa.ArrowInvalid("its row groups have another number of rows than the file")
            source = pa.BufferReader(tail) if len(tail) == size else pa.PythonFile(stored, mode="r")
            return cls(name=file.name, size=size, part=file.part, source=source, metadata=metadata)

    def fields(self) -> list[pa.Field]:
        """The columns in their order, with types that say what the file means."""
        with broken(self.name):
            opened = self._opened("us")
            leaves = map(opened.schema.column, range(self.metadata.num_columns))
            return [
                field.with_type(mapped(field.type, lambda kind: _meant(next(leaves), kind)))
                for field in opened.schema_arrow
            ]

    def rows(self, names: Sequence[str], int96: Sequence[str]) -> Iterator[RowsRead]:
        """The rows of the part's row groups, of the columns `names`. Those in `int96` are read twice, to be exact."""
        with broken(self.name):
            opened, again = self._opened("s" if int96 else "us"), self._opened("ns") if int96 else None
            self._check_chunks()
            counts = [self.metadata.row_group(group).num_rows for group in range(self.metadata.num_row_groups)]
            firsts = list(accumulate(counts, initial=0))
            for groups in self._read_together():
                before, start = firsts[groups[0]], firsts[groups[0]]
                exact = again.read_row_groups(groups, columns=list(int96), use_threads=False) if again else None
                for batch in opened.iter_batches(
                    batch_size=_BATCH_ROWS,
                    row_groups=groups,
                    columns=list(names),
                    use_threads=False,  # a task has one core
                ):
                    more = None if exact is None else _one_batch(exact.slice(before - start, batch.num_rows))
                    yield RowsRead(before=before, batch=batch, nanoseconds=more)
                    before += batch.num_rows
                if (missing := firsts[groups[-1] + 1] - before) != 0:
                    raise pa.ArrowInvalid(f"its columns have {missing} fewer values than its row groups have rows")

    def _check_chunks(self) -> None:
        """Raise `pa.ArrowInvalid` where the footer says of a column's chunk what cannot be."""
        flat = [self.metadata.schema.column(at).max_repetition_level == 0 for at in range(self.metadata.num_columns)]
        places = list[tuple[int, int]]()
        for row_group in map(self.metadata.row_group, range(self.metadata.num_row_groups)):
            rows = row_group.num_rows
            for at, is_flat in enumerate(flat):
                chunk = row_group.column(at)
                count = chunk.num_values
                if chunk.file_path:
                    raise pa.ArrowInvalid(f"its column {chunk.path_in_schema} is in another file, {chunk.file_path}")
                if count < rows or (is_flat and count > rows):
                    raise pa.ArrowInvalid(
                        f"its column {chunk.path_in_schema} has {count} values in a row group of {rows} rows"
                    )
                pages = chunk.data_page_offset
                begin = min(chunk.dictionary_page_offset or pages, pages)
                places.append((begin, begin + chunk.total_compressed_size))
        if any(behind > begin for (_, behind), (begin, _) in pairwise(sorted(places))):
            raise pa.ArrowInvalid("its columns lie over each other")

    def _opened(self, unit: str) -> Any:
        return parquet.ParquetFile(
            self.source,
            metadata=self.metadata,
            pre_buffer=True,
            coerce_int96_timestamp_unit=unit,
            page_checksum_verification=True,
        )

    def _read_together(self) -> Iterator[list[int]]:
        """The part's row groups, in lists of those that are fetched at once and share memory until all are read."""
        together: list[int] = []
        room = _TOGETHER
        for group, size in self._groups():
            if together and (size > room or group != together[-1] + 1):
                yield together
                together, room = [], _TOGETHER
            together.append(group)
            room -= size
        if together:
            yield together

    def _groups(self) -> Iterator[tuple[int, int]]:
        """The part's row groups, each with its size in bytes. A group belongs to the part with its middle.

        The places are estimated from the sizes, because pyarrow ends the process where a broken footer has other places.
        """
        sizes = [
            max(self.metadata.row_group(group).total_byte_size, 1) for group in range(self.metadata.num_row_groups)
        ]
        ends = list(accumulate(sizes))
        for group, (size, end) in enumerate(zip(sizes, ends, strict=True)):
            middle = self.size * (2 * end - size) // (2 * ends[-1])
            if self.part is None or self.part[0] <= middle < self.part[1]:
                yield group, size


@contextmanager
def broken(name: str) -> Iterator[None]:
    """Turn what pyarrow says of a broken file into `FileInvalid`. What the file's storage raises passes."""
    try:
        yield
    except (pa.ArrowException, ValueError, OSError) as error:
        if not is_of_content(error):
            raise
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise FileInvalid(f"{name} is a broken Parquet file: {reason}; write it again") from None


def _one_batch(rows: pa.Table) -> pa.RecordBatch:
    return pa.record_batch([pa.concat_arrays(column.chunks) for column in rows.columns], rows.schema.names)


def _meant(leaf: Any, kind: pa.DataType) -> pa.DataType:
    """The type of a column without members, as the file means it."""
    logical = leaf.logical_type.type
    meanings = {
        INT96: leaf.physical_type == "INT96",
        UUID: logical == "UUID",
        INTERVAL: leaf.converted_type == "INTERVAL",
        pa.string(): logical in _TEXTS,
    }
    plain = kind.value_type if pa.types.is_dictionary(kind) else kind
    return next((meaning for meaning, holds in meanings.items() if holds), plain)
