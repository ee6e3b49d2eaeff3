"""The grammar of a CSV dialect, and how it divides a text into runs of good records and single bad ones."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from asset_job.errors import FileInvalid
from asset_job.sources.csv.dialect import ALL, ATOMIC, BREAKS, Dialect
from asset_job.sources.records import LONGEST_RECORD, BadRecord
from asset_job.sources.texts.encodings import shown

_MANY = ALL if ATOMIC else b"{0,10000}"
"""The records of one run: each costs memory where the repetition is not possessive."""


@dataclass(frozen=True, kw_only=True)
class GoodRecords:
    """Whole records, one after another, each with as many fields as there are columns. Blank lines may be among them."""

    content: bytes
    places: Mapping[int, tuple[int, int]]
    """Where in the content records begin that stand behind something else in the file: the line and the byte there."""


Segment: TypeAlias = GoodRecords | BadRecord


@dataclass(kw_only=True)
class Grammar:
    """Divides a text into runs of good records, and bad records between them."""

    dialect: Dialect
    fields: int | None
    """The fields of a record; None: any number."""
    name: str
    """The file, for sentences."""
    part: bool = False
    """Whether the text is a part of a file, where lines have no numbers."""
    line: int = 1
    byte: int = 0

    def segments(self, pieces: Iterable[bytes]) -> Iterator[Segment]:
        """The runs and bad records of a text in UTF-8, in their order. Raises `FileInvalid` for a record that is too long."""
        end, waiting = self.dialect.line_end, b""
        for piece in pieces:
            waiting = yield from self.take(waiting + piece, final=False)
            if len(waiting) > LONGEST_RECORD:
                raise FileInvalid(f"{self.name} has a record of more than 16 MB at line {self.line}: close its quotes")
        if waiting:
            yield from self.take(waiting if waiting.endswith(end) else waiting + end, final=True)

    def first(self, text: bytes, *, final: bool) -> tuple[int, int] | None:
        """Where the first record of a text begins and ends, without its line end; None if that is not there yet.

        Raises `FileInvalid` for a text that does not begin with a record.
        """
        begin, skipped = 0, True
        while skipped:
            end = max(self._match(self._blank, text, begin), self._match(self._comment, text, begin))
            begin, skipped = end, end > begin
        stop = self._match(self._values, text, begin)
        if text.startswith(self.dialect.line_end, stop) or (final and stop == len(text)):
            return begin, stop
        bad = self._bad(text, begin, final=final)
        if bad is None:
            return None
        raise FileInvalid(f"the first line of {self.name} is no record: {bad[0].reason}; correct the file")

    def behind(self, text: bytes, end: int) -> bytes:
        """The text behind a record that ends at a place."""
        end = min(end + len(self.dialect.line_end), len(text))
        self.advance(text, 0, end)
        return text[end:]

    def take(self, text: bytes, *, final: bool) -> Generator[Segment, None, bytes]:
        """The segments at the beginning of a text, the good records in one run. Returns the rest, whose end is not there yet."""
        good: list[bytes] = []
        places: dict[int, tuple[int, int]] = {}
        at = size = 0
        while at < len(text):
            end = self._match(self._run, text, at)
            if end > at:
                places[size] = self.line, self.byte
                good.append(text[at:end])
                size += end - at
            else:
                end = self._match(self._comment, text, at)
            if end == at:
                bad = self._bad(text, at, final=final)
                if bad is None:
                    break
                record, end = bad
                yield record
            at = self.advance(text, at, end)
        if good:
            yield GoodRecords(content=b"".join(good), places=places)
        return text[at:]

    @staticmethod
    def _match(pattern: re.Pattern[bytes], text: bytes, at: int) -> int:
        """Where a match that begins at a place ends; the place itself if there is none."""
        match = pattern.match(text, at)
        return at if match is None else match.end()

    def advance(self, text: bytes, begin: int, end: int) -> int:
        self.line += text.count(self.dialect.line_end[-1:], begin, end)
        self.byte += end - begin
        return end

    def _bad(self, text: bytes, at: int, *, final: bool) -> tuple[BadRecord, int] | None:
        """The bad record at a place, and where it ends; None if that is not there yet."""
        line_end, quote = self.dialect.line_end, self.dialect.quote
        stop = self._match(self._values, text, at)
        if quote and self._begins_value(text, at, stop) and self._open.fullmatch(text, stop):
            if not final:
                return None
            line = self.line + text.count(line_end[-1:], at, stop)
            record = text[at:].removesuffix(line_end)
            lines = record.count(line_end) + 1
            return self._record(record, f"the quote that opens at line {line} is not closed", lines), len(text)
        if not final and (stop == len(text) or line_end.startswith(text[stop:])):
            return None
        end = text.find(line_end, stop)
        if end < 0:
            if not final:
                return None
            end = len(text)
        return self._record(text[at:end], self._reason(text, at, stop)), min(end + len(line_end), len(text))

    def _begins_value(self, text: bytes, at: int, stop: int) -> bool:
        """Whether nothing of the value that ends at `stop`, in a record that begins at `at`, stands before."""
        last = text[self._match(self._leading, text, at) : stop]
        return not (last.lstrip(b" ") if self.dialect.options.strip_left else last)

    def _reason(self, text: bytes, at: int, stop: int) -> str:
        if text.startswith(self.dialect.line_end, stop):
            count = self.dialect.count(text[at:stop])
            return f"it has {count} field{'' if count == 1 else 's'}, and {self.fields} are expected"
        character = text[stop : stop + 1]
        if character in BREAKS and self.dialect.has_usual_end:
            return "it has another line end than the file's first line"
        if self.dialect.quote and character == self.dialect.quote:
            return "a quote stands in a value without quotes, or is not closed in its line"
        return "text stands behind a closing quote"

    def _record(self, record: bytes, reason: str, count: int = 1) -> BadRecord:
        return BadRecord(record=shown(record), at=self.place(self.line, self.byte), reason=reason, count=count)

    def place(self, line: int, byte: int) -> str:
        """The name of a place in the file."""
        return f"byte {byte}" if self.part else f"line {line}"

    @cached_property
    def record(self) -> re.Pattern[bytes]:
        """A good record with its line end, or a blank line."""
        return re.compile(self._good)

    @cached_property
    def _run(self) -> re.Pattern[bytes]:
        return re.compile(rb"(?:%b)%b" % (self._good, _MANY))

    @property
    def _good(self) -> bytes:
        times = ALL if self.fields is None else b"{%d}" % (self.fields - 1)
        field, separator = self.dialect.field(), re.escape(self.dialect.separator)
        values = rb"%b(?:%b%b)%b" % (field, separator, field, times)
        comment = (self.dialect.options.comment or "").encode()
        begin = b"(?!%b)" % re.escape(comment) if comment else b""
        return rb"%b(?:%b)?%b%b" % (begin, values, ATOMIC, re.escape(self.dialect.line_end))

    @cached_property
    def _blank(self) -> re.Pattern[bytes]:
        return re.compile(re.escape(self.dialect.line_end))

    @cached_property
    def _values(self) -> re.Pattern[bytes]:
        field = self.dialect.field()
        return re.compile(rb"%b(?:%b%b)%b" % (field, re.escape(self.dialect.separator), field, ALL))

    @cached_property
    def _leading(self) -> re.Pattern[bytes]:
        return re.compile(rb"(?:%b%b)%b" % (self.dialect.field(), re.escape(self.dialect.separator), ALL))

    @cached_property
    def _open(self) -> re.Pattern[bytes]:
        quote, escape = re.escape(self.dialect.quote), re.escape(self.dialect.escape)
        return re.compile(rb"%b%b(?:%b)?" % (quote, self.dialect.content, escape))

    @cached_property
    def _comment(self) -> re.Pattern[bytes]:
        comment, end = (self.dialect.options.comment or "").encode(), re.escape(self.dialect.line_end)
        return re.compile(rb"%b(?:(?!%b)[\s\S])%b%b" % (re.escape(comment), end, ALL, end) if comment else b"(?!)")
