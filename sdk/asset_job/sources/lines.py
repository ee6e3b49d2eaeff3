"""Parse files of text: each line is a row."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from asset_job.errors import FileInvalid
from asset_job.sources.options import ReadOptions
from asset_job.sources.records import LONGEST_RECORD, BadRecord, OpenFile, Parsed
from asset_job.sources.texts.encodings import is_utf8, shown, text_of, text_of_file


@dataclass(frozen=True, kw_only=True)
class LinesParser:
    """Makes each line a row of one text. Lines end with LF, CR LF or CR, or with the option `lineSep`."""

    columns: pa.Schema
    options: ReadOptions

    def parse(self, file: OpenFile) -> Iterator[Parsed]:
        line, byte = 1, file.part[0] if file.part else 0
        for chunk in self._chunks(file):
            content = self._with_one_line_end(chunk).removesuffix(self._line_end)
            if is_utf8(content):
                texts = pc.list_flatten(pc.split_pattern(text_of(content), self._line_end.decode()))
                yield pa.record_batch([texts], schema=self.columns)
                line += len(texts)
            else:
                for text, begin in self._single(chunk):
                    if is_utf8(text):
                        yield pa.record_batch([[text.decode()]], schema=self.columns)
                    else:
                        at = f"line {line}" if file.part is None else f"byte {byte + begin}"
                        yield BadRecord(
                            record=shown(text), at=at, reason="it holds bytes that are no text in its encoding"
                        )
                    line += 1
            byte += len(chunk)

    @property
    def _line_end(self) -> bytes:
        return (self.options.line_separator or "\n").encode()

    def _with_one_line_end(self, chunk: bytes) -> bytes:
        if self.options.line_separator or b"\r" not in chunk:
            return chunk
        return chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _chunks(self, file: OpenFile) -> Iterator[bytes]:
        """Many whole lines at a time. A CR at the end waits for what follows it."""
        waiting = b""
        for piece in text_of_file(file, self.options.encoding):
            waiting += piece
            if self.options.line_separator is None:
                cut = max(waiting.rfind(b"\n"), waiting.rfind(b"\r", 0, len(waiting) - 1)) + 1
            else:
                cut = len(waiting) - len(waiting.split(self._line_end)[-1])
            if cut:
                yield waiting[:cut]
                waiting = waiting[cut:]
            if len(waiting) > LONGEST_RECORD:
                raise FileInvalid(
                    f"{file.name} has a line of more than 16 MB: divide it, or name the line end by lineSep"
                )
        if waiting:
            yield waiting

    def _single(self, chunk: bytes) -> Iterator[tuple[bytes, int]]:
        """Each line of a chunk, with the byte at which it begins."""
        end = re.escape(self._line_end) if self.options.line_separator else rb"\r\n|\n|\r"
        for match in re.finditer(rb"(?s)(.*?)(?:%b|\Z)" % end, chunk):
            if match.end() > match.start():
                yield match[1], match.start()
