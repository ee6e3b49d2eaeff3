"""Where a file of CSV can be divided: behind records that a pass by the whole grammar has shown to end outside quotes.

Where no value has line breaks, behind any line.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Sequence
from typing import IO, Final

from asset_job.sources.csv.grammar import Grammar
from asset_job.sources.csv.opening import OpenCsv, stored_line_end
from asset_job.sources.options import ReadOptions
from asset_job.sources.records import LONGEST_RECORD, OpenFile

_NEAR: Final = 64 << 10
"""Bytes in which the end of a line is looked for at a time."""


def line_ends(file: OpenFile, options: ReadOptions, places: Sequence[int]) -> list[int]:
    """For each of the ascending byte places, where the first line ends at or behind it; each once. Little more is read.

    Only what ends the file's first line ends a line. A place is left out where a line is longer than a record, and in a file
    whose lines end with CR, because parts are cut behind CR LF.
    """
    line_end = stored_line_end(file, options)
    if not line_end.endswith(b"\n"):
        return []
    stored, ends = file.seekable(), [0]
    for place in places:
        if place > ends[-1]:
            ends += _next_end(stored, max(place - len(line_end), 0), line_end)
    return [end for end in ends if 0 < end < file.size]


def _next_end(stored: IO[bytes], begin: int, line_end: bytes) -> list[int]:
    """The byte behind the first line end from a byte on. Nothing: the line is longer than a record."""
    stored.seek(begin)
    text = b""
    while line_end not in text:
        piece = stored.read(_NEAR)
        if not piece or len(text) > LONGEST_RECORD:
            return []
        text += piece
    return [begin + text.index(line_end) + len(line_end)]


def record_ends(file: OpenFile, options: ReadOptions, places: Sequence[int]) -> list[int]:
    """For each of the ascending byte places, where the first record ends that is known to end at or behind it; each once.

    The file is read up to the last place. A place is left out where no end is known: behind an open quote that is longer
    than a record, and in a file whose lines end with CR, because parts are cut behind CR LF.
    """
    mark = len(codecs.BOM_UTF8) if file.seekable().read(len(codecs.BOM_UTF8)) == codecs.BOM_UTF8 else 0
    opened = OpenCsv.of(file, options, None if options.header else 1)
    if opened is None or not opened.grammar.dialect.line_end.endswith(b"\n"):
        return []
    opened.grammar.fields = None  # also a record with too many or too few ends where its line does
    ends, waiting = list[int](), list(places)
    for end in _ends(opened.grammar, opened.pieces):
        if waiting and waiting[0] <= mark + end:
            ends.append(mark + end)
            waiting = [place for place in waiting if place > mark + end]
        if not waiting:
            break
    return [end for end in ends if end < file.size]


def _ends(grammar: Grammar, pieces: Iterator[bytes]) -> Iterator[int]:
    """The byte behind the last whole record of all that was read, for each piece."""
    quote, line_end, rest = grammar.dialect.quote, grammar.dialect.line_end, b""
    for piece in pieces:
        text = rest + piece
        if quote and quote in text:
            rest = _behind_records(grammar, text)
        else:  # each line end is outside quotes
            rest = text[grammar.advance(text, 0, text.rfind(line_end) + len(line_end) if line_end in text else 0) :]
        if len(rest) > LONGEST_RECORD:
            return
        yield grammar.byte


def _behind_records(grammar: Grammar, text: bytes) -> bytes:
    segments = grammar.take(text, final=False)
    while True:
        try:
            next(segments)
        except StopIteration as end:
            return bytes(end.value)
