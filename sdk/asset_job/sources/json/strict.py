"""Decode single JSON values strictly by RFC 8259. Numbers keep their texts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import accumulate, count
from json import JSONDecodeError, JSONDecoder
from typing import Any, Final

DEPTH: Final = 500
"""The most objects and arrays inside one another. RFC 8259 leaves the limit to the parser."""
_BLANKS: Final = re.compile(r"[ \t\n\r]*")
_STRING: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"')
_BRACKET: Final = re.compile(r"[\[\]{}]")


class Number(str):
    """A number's text as the file has it."""

    __slots__ = ()


class Repeated(dict[str, Any]):
    """An object in which names come more than once."""

    def __init__(self, members: dict[str, Any], names: frozenset[str]) -> None:
        super().__init__(members)
        self.names = names


class Broken(Exception):
    """A text does not go on as RFC 8259 says."""


def member(text: str, path: Sequence[str | int]) -> str:
    """What the text of a value has at a path of names and indexes, as it stands."""
    at = 0
    for key in path:
        at = next(place for name, place in _members(text, at) if name == key)
    return text[at : scan(text, at)[1]]


def _members(text: str, at: int) -> Iterator[tuple[str | int, int]]:
    """The names of the object, or indexes of the array, at a place of a text, and the places of their values."""
    is_object = text[at] == "{"
    at = after_blanks(text, at + 1)
    for index in count():
        name: str | int = index
        if is_object:
            name, at = scan(text, at)
            at = after_blanks(text, after_blanks(text, at) + 1)
        yield name, at
        at = after_blanks(text, after_blanks(text, scan(text, at)[1]) + 1)


def after_blanks(text: str, at: int) -> int:
    """The place of the next character that is no white space."""
    match = _BLANKS.match(text, at)
    return match.end() if match else at


def _depth(text: str) -> int:
    steps = (1 if each in "[{" else -1 for each in _BRACKET.findall(_STRING.sub("", text)))
    return max(accumulate(steps))


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) == len(pairs):
        return members
    counts = Counter(name for name, _ in pairs)
    return Repeated(members, frozenset(name for name in members if counts[name] > 1))


def decoded(text: str) -> tuple[Any, int, str]:
    """The value with which a text begins, where it ends or breaks, and why it breaks."""
    try:
        value, end = scan(text, 0)
    except JSONDecodeError as error:
        is_open = error.msg.startswith("Unterminated")
        return None, len(text) if is_open else error.pos, error.msg.lower().removesuffix(" at")
    except RecursionError:
        return None, 0, _TOO_DEEP
    except Broken as error:
        return None, 0, str(error)
    too_deep = text.count("{", 0, end) + text.count("[", 0, end) > DEPTH and _depth(text[:end]) > DEPTH
    return value, end, _TOO_DEEP if too_deep else ""


def _no_constant(name: str) -> Any:
    raise Broken(f"{name} is no number")


_TOO_DEEP: Final = f"it is nested more than {DEPTH} levels deep"
scan: Final = JSONDecoder(
    parse_int=Number, parse_float=Number, parse_constant=_no_constant, object_pairs_hook=_object
).raw_decode
"""Decodes the value at a place of a text; also returns where it ends."""
