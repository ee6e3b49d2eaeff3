"""Divide a text into JSON values, strictly by RFC 8259. Values follow one another with any white space between them, or none.

An array at the top gives its elements. What breaks the syntax is one line, if the file's first value ended at its line; else
it is the rest of the file. Nothing of a broken line is kept, so the values of a line are held until it has ended.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, count
from json import JSONDecodeError, JSONDecoder
from json.decoder import scanstring
from typing import Any, Final, Literal

from asset_job.errors import FileInvalid
from asset_job.sources.records import LONGEST_BAD, LONGEST_RECORD, BadRecord
from asset_job.sources.texts.encodings import shown

DEPTH: Final = 500
"""The most objects and arrays inside one another. RFC 8259 leaves the limit to the parser."""
BLANKS: Final = re.compile(r"[ \t\n\r]*")

_LINE_END: Final = re.compile(r"\r\n?|\n")
_STRING: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"')
_BRACKET: Final = re.compile(r"[\[\]{}]")
_LONGEST_TOKEN: Final = 12
"""More characters than any token but a string has. A decoder that stops so close to a text's end may lack what follows."""
_MUCH: Final = 1 << 20
"""Characters of values that are returned at a time, where they need not be held."""


class Number(str):
    """A number's text as the file has it."""

    __slots__ = ()


class Repeated(dict[str, Any]):
    """An object in which names come more than once."""

    def __init__(self, members: dict[str, Any], names: frozenset[str]) -> None:
        super().__init__(members)
        self.names = names


@dataclass(frozen=True, slots=True)
class Value:
    """One value at the top of a file, or an element of an array there."""

    text: str
    value: Any
    line: int
    """The line at which it begins."""


class _Broken(Exception):
    """The text does not go on as RFC 8259 says."""


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
        self._number = 1
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
        number = self._number
        try:
            while not self._is_group(values):
                pass
        except _Broken as error:
            if not self.lines:
                return [*values, self._rest(str(error))]
            self._at, self._counted, self._number, self._within = self.begin, self.begin, number, ""
            values = [self._line(str(error))]
        self._move()
        return values

    def _is_group(self, values: list[Value | BadRecord]) -> bool:
        """Whether the values may be returned after one step by the grammar of the top, which adds a value or none."""
        self._step(values)
        number = self._place()
        if self.lines is None:
            self.lines = None if number == self._first and self._within else number == self._first
        if self._at - self.begin > (LONGEST_RECORD if self.lines is not False else _MUCH):
            self.lines = False
            return True
        if self._within:
            return False
        at = self._at
        ended = not self._character() or _LINE_END.search(self.text, at, self._at) is not None
        self._at = at if ended else self._at
        return ended

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
            raise _Broken(f"an array goes on with {character!r}" if character else "an array does not end")
        else:
            values.append(self._value())
            self._within = "value" if self._within else ""
            return
        self._at += 1

    def _value(self) -> Value:
        number = self._place()
        while True:
            try:
                value, end = scan(self.text, self._at)
                stop, reason = end, ""
            except StopIteration as error:
                stop, reason = error.value, "a value is missing"
            except JSONDecodeError as error:
                is_open = error.msg.startswith("Unterminated")
                stop, reason = len(self.text) if is_open else error.pos, error.msg.lower().removesuffix(" at")
            except (RecursionError, _Broken) as error:
                stop, reason = self._at, str(error) if isinstance(error, _Broken) else _TOO_DEEP
            if stop - self._at > LONGEST_RECORD:
                raise self._too_long(number)
            is_sure = stop < len(self.text) - _LONGEST_TOKEN or (not reason and self.text[stop - 1] in '}]"')
            if is_sure or not self._more():
                break
        if reason:
            raise _Broken(f"it is no JSON: {reason} at character {stop - self._at + 1} of the value")
        text = self.text[self._at : end]
        if text.count("{") + text.count("[") > DEPTH and _depth(text) > DEPTH:
            raise _Broken(_TOO_DEEP)
        self._at = end
        return Value(text, value, number)

    def _line(self, reason: str) -> BadRecord:
        """The line that begins, which is skipped."""
        while (end := _LINE_END.search(self.text, self._at)) is None and self._more():
            if len(self.text) - self._at > LONGEST_RECORD:
                raise self._too_long(self._number)
        number, begin = self._number, self._at
        self._at = end.start() if end else len(self.text)
        return bad_record(self.text[begin : self._at], number, reason)

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
            match = BLANKS.match(self.text, self._at)
            self._at = match.end() if match else self._at
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
        self._number += line_ends(self.text[self._counted : self._at])
        self._counted = self._at
        return self._number

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


def member(text: str, path: Sequence[str | int]) -> str:
    """What the text of a value has at a path of names and indexes, as it stands."""
    at = 0
    for key in path:
        at = next(place for name, place in _members(text, at) if name == key)
    return text[at : scan(text, at)[1]]


def _members(text: str, at: int) -> Iterator[tuple[str | int, int]]:
    """The names of the object, or indexes of the array, at a place of a text, and the places of their values."""
    is_object = text[at] == "{"
    at = _after_blanks(text, at + 1)
    for index in count():
        name: str | int = index
        if is_object:
            name, at = scanstring(text, at + 1, True)
            at = _after_blanks(text, _after_blanks(text, at) + 1)
        yield name, at
        at = _after_blanks(text, _after_blanks(text, scan(text, at)[1]) + 1)


def _after_blanks(text: str, at: int) -> int:
    match = BLANKS.match(text, at)
    return match.end() if match else at


def _depth(text: str) -> int:
    steps = (1 if each in "[{" else -1 for each in _BRACKET.findall(_STRING.sub("", text)))
    return max(accumulate(steps))


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) == len(pairs):
        return members
    return Repeated(
        members, names=frozenset(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
    )


def _no_constant(name: str) -> Any:
    raise _Broken(f"{name} is no number")


_TOO_DEEP: Final = f"it is nested more than {DEPTH} levels deep"
scan: Final[Callable[[str, int], tuple[Any, int]]] = JSONDecoder(
    parse_int=Number, parse_float=Number, parse_constant=_no_constant, object_pairs_hook=_object
).scan_once
"""Decodes the value at a place of a text; also returns where it ends."""
