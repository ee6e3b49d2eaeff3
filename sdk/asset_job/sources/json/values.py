"""Divide a text into JSON values. Values follow one another with any white space between them, or none.

An array at the top gives its elements. What breaks the syntax is one line, if the file's first value ended at its line; else
it is the rest of the file. Nothing of a broken line is kept, so the values of a line are held until it has ended (of
a line of megabytes they are not).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, Literal

from asset_job.errors import FileInvalid
from asset_job.sources.json.strict import Broken, after_blanks, decoded
from asset_job.sources.records import LONGEST_BAD, LONGEST_RECORD, BadRecord
from asset_job.sources.texts.encodings import shown

_LINE_END: Final = re.compile(r"\r\n?|\n")
_LONGEST_TOKEN: Final = 12
"""More characters than any token but a string has. A decoder that stops so close to a text's end may lack what follows."""
_WINDOW: Final = 4 << 10
"""Characters in which a value is looked for first. What an error costs grows with the text."""
_HELD: Final = 4 << 20
"""Characters of a line whose values are held until it has ended. Of a longer line what is good is returned."""
_MUCH: Final = 1 << 20
"""Characters of values that are returned at a time, where they need not be held."""


@dataclass(frozen=True, slots=True)
class Value:
    """One value at the top of a file, or an element of an array there."""

    text: str
    value: Any
    line: int
    """The line at which it begins."""


class JsonValues:
    """The values of one file. Only what is not yet returned is held."""

    def __init__(self, pieces: Iterable[str], *, name: str) -> None:
        self.begin = 0
        """Where the next line, or what follows the last value, begins in `text`."""
        self.text = ""
        self.lines: bool | None = None
        """Whether what breaks the syntax is a line. None: not yet known."""
        self._pieces = iter(pieces)
        self._name = name
        self._at = 0
        self._line = 1
        self._counted = 0
        self._first: int | None = None
        self._within: Literal["", "[", ",", "value"] = ""
        """What was last read of an array at the top; the empty text: there is none."""
        self._is_whole = False

    @property
    def at_line(self) -> bool:
        """Whether a line begins, outside of any value."""
        return bool(self.lines) and not self._within

    def is_left(self) -> bool:
        """Whether something is left but white space, which is skipped up to the line that is next."""
        ended = not self._character()
        skipped = self.text[self.begin : self._at]
        self._at = self.begin + max(skipped.rfind("\n"), skipped.rfind("\r")) + 1
        self._move()
        return not ended or bool(self._within)

    def ahead(self, most: int) -> str:
        """The next whole lines, of at most so many characters; the empty text if one alone is longer."""
        while len(self.text) - self._at < most and self._more():
            pass
        end = self._at + most
        cut = len(self.text) if len(self.text) <= end and self._is_whole else self.text.rfind("\n", self._at, end) + 1
        return self.text[self._at : max(cut, self._at)]

    def skip(self, characters: int) -> None:
        """Pass over what was read `ahead`."""
        self._at += characters
        self._move()

    def group(self) -> list[Value | BadRecord]:
        """The next values: those of a line, or about a megabyte of them where none must be held."""
        values: list[Value | BadRecord] = []
        number = self._line
        try:
            while not self._is_group(values):
                pass
        except Broken as error:
            if not self.lines:
                return [*values, self._rest(str(error))]
            self._at, self._counted, self._line, self._within = self.begin, self.begin, number, ""
            values = [self._skip_line(str(error))]
        self._move()
        return values

    def _is_group(self, values: list[Value | BadRecord]) -> bool:
        """Whether the values may be returned after one step by the grammar of the top, which adds a value or none."""
        self._step(values)
        if self.lines is None and not (self._place() == self._first and self._within):
            self.lines = self._line == self._first
        length = self._at - self.begin  # places move when more is read
        if not self._within and (not self._character() or self._line_ends_after(length)):
            self._at = self.begin + length
            return True
        if length > (_MUCH if self.lines is False else _HELD):
            self.lines = False
            return True
        return False

    def _line_ends_after(self, length: int) -> bool:
        return _LINE_END.search(self.text, self.begin + length, self._at) is not None

    def _step(self, values: list[Value | BadRecord]) -> None:
        character = self._character()
        if self._first is None:
            self._first = self._place()
        if character == "[" and not self._within:
            self._within = "["
        elif character == "]" and self._within in {"[", "value"}:
            self._within = ""
        elif character == "," and self._within == "value":
            self._within = ","
        elif self._within == "value":
            raise Broken(f"an array goes on with {character!r}" if character else "an array does not end")
        else:
            values.append(self._value())
            self._within = "value" if self._within else ""
            return
        self._at += 1

    def _value(self) -> Value:
        line, size = self._place(), _WINDOW
        while True:
            text = self.text[self._at : self._at + size]
            value, stop, reason = decoded(text)
            if stop > LONGEST_RECORD:
                raise self._too_long(line)
            is_sure = stop < len(text) - _LONGEST_TOKEN or (not reason and text[stop - 1] in '}]"')
            if is_sure or (len(self.text) <= self._at + size and not self._more()):
                break
            size *= 4
        if reason:
            raise Broken(f"it is no JSON: {reason} at character {stop + 1} of the value")
        self._at += stop
        return Value(text[:stop], value, line)

    def _skip_line(self, reason: str) -> BadRecord:
        """The line that begins, which is skipped."""
        while (end := _LINE_END.search(self.text, self._at)) is None:
            if len(self.text) - self._at > LONGEST_RECORD or not self._more():
                break
        begin, self._at = self._at, end.start() if end else len(self.text)
        if self._at - begin > LONGEST_RECORD:
            raise self._too_long(self._line)
        return bad_record(self.text[begin : self._at], self._line, reason)

    def _rest(self, reason: str) -> BadRecord:
        """What is left of the file, which is skipped."""
        number, lines, last, kept = self._place(), 0, "", ""
        for piece in chain([self.text[self._at :]], self._pieces):
            lines += line_ends(piece) - (last == "\r" and piece.startswith("\n"))
            last = piece[-1:] or last
            kept += piece[: LONGEST_BAD - len(kept)]
        self.text, self.begin, self._at, self._counted, self._within = "", 0, 0, 0, ""
        return bad_record(kept.rstrip("\r\n"), number, reason, max(lines + (last not in "\r\n"), 1))

    def _character(self) -> str:
        """The next character that is no white space; the empty text at the file's end."""
        while True:
            self._at = after_blanks(self.text, self._at)
            if self._at < len(self.text):
                return self.text[self._at]
            if not self._more():
                return ""

    def _more(self) -> bool:
        """Read as much again as is left, so that a long value is decoded few times. False at the file's end."""
        pieces, least = [self.text[self.begin :]], len(self.text) - self._at
        for piece in self._pieces:
            pieces.append(piece)
            least -= len(piece)
            if least < 0:
                break
        else:
            self._is_whole = True
        if len(pieces) == 1:
            return False
        self.text = "".join(pieces)
        self._at -= self.begin
        self._counted -= self.begin
        self.begin = 0
        return True

    def _move(self) -> None:
        self._place()
        self.begin = self._at

    def _place(self) -> int:
        """The number of the line at which the reading is."""
        self._line += line_ends(self.text[self._counted : self._at])
        self._counted = self._at
        return self._line

    def _too_long(self, number: int) -> FileInvalid:
        return FileInvalid(
            f"{self._name}: the record at line {number} is longer than {LONGEST_RECORD >> 20} MB: "
            "divide it, or leave the file out"
        )


def bad_record(text: str, line: int, reason: str, lines: int = 1) -> BadRecord:
    """A bad record of a text in which bytes that are no UTF-8 are lone surrogates."""
    record = shown(text[:LONGEST_BAD].encode("utf-8", "surrogateescape"))
    return BadRecord(record=record[:LONGEST_BAD], at=f"line {line}", reason=reason, count=lines)


def line_ends(text: str) -> int:
    """The number of line ends: LF, CR LF or CR."""
    return len(_LINE_END.findall(text)) if "\r" in text else text.count("\n")
