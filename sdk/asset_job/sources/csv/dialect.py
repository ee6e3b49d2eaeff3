"""The dialect of a CSV file: the patterns of its values and the end of its lines."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from functools import cached_property

from asset_job.sources.options import ReadOptions
from asset_job.sources.records import LONGEST_RECORD

BREAKS = b"\r\n"
ATOMIC = b"+" if sys.version_info >= (3, 11, 5) else b""
"""Makes a repetition possessive where Python can: before 3.11.5 that matches what it should not. Otherwise both match the same."""
ALL = b"*" + ATOMIC


def _none_of(characters: bytes) -> bytes:
    """The pattern of a byte that is none of these."""
    return b"[^%b]" % re.escape(characters) if characters else rb"[\s\S]"


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """The patterns of a file's values, whose lines end with `line_end`."""

    options: ReadOptions
    line_end: bytes

    @cached_property
    def separator(self) -> bytes:
        return self.options.separator.encode()

    @cached_property
    def quote(self) -> bytes:
        return self.options.quote.encode()

    @cached_property
    def escape(self) -> bytes:
        """The character that makes a quote or itself ordinary; empty: quotes are doubled only."""
        escape = (self.options.escape or "").encode()
        return b"" if escape == self.quote else escape

    @property
    def is_plain(self) -> bool:
        """Whether Arrow can split what the grammar has approved."""
        spaces = self.options.strip_left or self.options.strip_right
        return len(self.separator) == 1 and not self.escape and not spaces and self.has_usual_end

    @property
    def has_usual_end(self) -> bool:
        """Whether lines end with LF, CR LF or CR, so that the others are no part of a bare value."""
        return self.line_end in {b"\n", b"\r\n", b"\r"}

    @cached_property
    def content(self) -> bytes:
        """The pattern of what stands between quotes."""
        quote, breaks = re.escape(self.quote), b"" if self.options.multi_line else BREAKS
        some, pair = _none_of(self.quote + self.escape + breaks) + ALL, quote * 2
        if self.escape:
            pair = rb"(?:%b%b|%b)" % (re.escape(self.escape), _none_of(breaks), pair)
        return rb"%b(?:%b%b)%b" % (some, pair, some, ALL)

    def quoted(self, group: bytes = b"?:") -> bytes:
        """The pattern of a value in quotes. With an empty `group` its content is a group."""
        quote = re.escape(self.quote)
        return rb"%b(%b%b)%b(?!%b)" % (quote, group, self.content, quote, quote)

    @cached_property
    def bare(self) -> bytes:
        """The pattern of a value without quotes."""
        breaks = BREAKS if self.has_usual_end else b""
        if len(self.separator) == 1 and breaks:
            return _none_of(self.separator + self.quote + breaks) + ALL
        ends = b"|".join(map(re.escape, [self.separator, self.line_end]))
        return rb"(?:(?!%b)%b)%b" % (ends, _none_of(self.quote + breaks), ALL)

    def field(self, group: bytes = b"?:") -> bytes:
        """The pattern of a value, in quotes or bare. With an empty `group` both are groups."""
        left, right = (b" " + ALL if strip else b"" for strip in (self.options.strip_left, self.options.strip_right))
        if not self.quote:
            return rb"(?:(%b(?!))|(%b%b))" % (group, group, self.bare)
        return rb"(?:%b%b%b|(%b%b))" % (left, self.quoted(group), right, group, self.bare)

    def split(self, record: bytes) -> list[str | None]:
        """The values of a good record in UTF-8."""
        return [self._value(*match) for match in self._splitting.findall(record)] if record else []

    def count(self, record: bytes) -> int:
        """The number of values in a record, which may be no text."""
        return len(self._splitting.findall(record)) if record else 0

    @cached_property
    def _splitting(self) -> re.Pattern[bytes]:
        return re.compile(rb"(?:\A|%b)(%b)" % (re.escape(self.separator), self.field(b"")))

    def _value(self, whole: bytes, quoted: bytes, bare: bytes) -> str | None:
        options = self.options
        if not self.quote or not whole.lstrip(b" " if options.strip_left else b"").startswith(self.quote):
            bare = bare.lstrip(b" ") if options.strip_left else bare
            text = (bare.rstrip(b" ") if options.strip_right else bare).decode()
            return None if text in {"", options.null_value} else text
        quoted = quoted.replace(self.quote * 2, self.quote)
        if self.escape:
            quoted = re.sub(
                rb"%b([%b])" % (re.escape(self.escape), re.escape(self.escape + self.quote)), rb"\1", quoted
            )
        return quoted.decode() or options.empty_value


def line_end_of(text: bytes, options: ReadOptions, *, final: bool) -> bytes | None:
    """The end of the first line, outside quotes; None if it is not there yet."""
    if options.line_separator:
        return options.line_separator.encode()
    dialect = Dialect(options=options, line_end=b"\n")
    plain = _none_of(dialect.quote + BREAKS) + ALL
    more = rb"(?:%b%b)%b" % (dialect.quoted(), plain, ALL) if dialect.quote else b""
    match = re.match(rb"%b%b(\r\n|\n|\r)" % (plain, more), text)
    if match is None and (final or len(text) > LONGEST_RECORD):
        match = re.search(rb"(\r\n|\n|\r)", text)
        return match[1] if match else b"\n"
    if match is None or (match[1] == b"\r" and match.end() == len(text) and not final):
        return None
    return match[1]
