"""A strict reader of JSON with exact numbers, by Python's own parser: the values of a file, and what is bad by docs/ingest.md."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any


class Number(str):
    """A number as the file has it."""

    __slots__ = ()


class Members(list):
    """The members of an object, in their order, each a name and a value."""


@dataclass(frozen=True, kw_only=True)
class JsonRecord:
    text: str
    value: Any = None
    fault: str | None = None
    count: int = 1


def _refuse(constant: str) -> None:
    raise ValueError(constant)


_DECODER = json.JSONDecoder(parse_float=Number, parse_int=Number, parse_constant=_refuse, object_pairs_hook=Members)
_SPACE = re.compile(r"[ \t\n\r]*")


class Undecided(Exception):
    """The promise leaves open what is read."""


def records(text: str) -> list[JsonRecord]:
    """The records of a file's text, in which bytes that are no UTF-8 are surrogates.

    Raises `Undecided` where the first value is broken, because whether the file has a value a line is then unknown, and where
    a line is broken on which a value ends that began before.
    """
    read: list[tuple[int, int, JsonRecord]] = []
    """Each with the places where its value begins and ends."""
    at, in_lines = _space(text, 0), None
    while at < len(text):
        elements: list[JsonRecord] = []
        try:
            behind = _value(text, at, elements)
        except (ValueError, RecursionError):
            if in_lines is None and text[at] != "[":
                raise Undecided from None
            if not in_lines:
                return [*(record for *_, record in read), *elements, JsonRecord(text=text[at:], fault="syntax", count=0)]
            line = text.rfind("\n", 0, at) + 1
            if any(begin < line < end for begin, end, _ in read):
                raise Undecided from None
            behind = _line_end(text, at)
            read = [each for each in read if each[0] < line]
            elements = [JsonRecord(text=text[line:behind].strip(), fault="syntax")]
        read += [(at, behind, element) for element in elements]
        in_lines = "\n" not in text[at:behind] if in_lines is None else in_lines
        at = _space(text, behind)
    return [record for *_, record in read]


def _value(text: str, at: int, elements: list[JsonRecord]) -> int:
    """Append the records of the value that begins here. Return where it ends.

    Raises ValueError, with those elements of an array appended that are before the fault.
    """
    if text[at] != "[":
        value, end = _DECODER.raw_decode(text, at)
        elements.append(_record(text[at:end], value))
        return end
    at = _space(text, at + 1)
    if text.startswith("]", at):
        return at + 1
    while True:
        value, end = _DECODER.raw_decode(text, at)
        elements.append(_record(text[at:end], value))
        at = _space(text, end)
        if text.startswith("]", at):
            return at + 1
        if not text.startswith(",", at):
            raise ValueError(at)
        at = _space(text, at + 1)


def _record(text: str, value: Any) -> JsonRecord:
    if not isinstance(value, Members):
        return JsonRecord(text=text, fault="no object")
    return JsonRecord(text=text, value=value, fault="bytes" if _has_surrogates(value) else None)


def _has_surrogates(value: Any) -> bool:
    """Whether a text in the value is none: bytes that are no UTF-8, or half of a pair."""
    if isinstance(value, str):
        return any("\ud800" <= character <= "\udfff" for character in value)
    return isinstance(value, (list, tuple)) and any(map(_has_surrogates, value))


def _space(text: str, at: int) -> int:
    return _SPACE.match(text, at).end()


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end
