"""Java's property files, as `java.util.Properties.load` reads them and Spark after it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

_ENTRY: Final = re.compile(r"((?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)", re.DOTALL)
_CONTROLS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_BLANKS: Final = " \t\f"


def read_properties(text: str) -> dict[str, str]:
    """Of a key given twice the last value counts; values lose the blanks around them, as Spark has it."""
    entries = (_ENTRY.fullmatch(line) for line in _logical_lines(text))
    return {_unescape(entry[1]): _unescape(entry[2]).strip(_BLANKS) for entry in entries if entry}


def write_properties(properties: Mapping[str, str]) -> str:
    """The text from which these are read."""
    return "".join(f"{_escape_key(key)}={_escape(value)}\n" for key, value in properties.items())


def _logical_lines(text: str) -> Iterator[str]:
    """Lines without comments; one that ends in an odd number of backslashes goes on in the next."""
    line = ""
    for natural in re.split("\r\n|\r|\n", text):
        part = natural.lstrip(_BLANKS)
        if not line and part.startswith(("#", "!")):
            continue
        line += part
        if (len(line) - len(line.rstrip("\\"))) % 2:
            line = line[:-1]
            continue
        if line:
            yield line
        line = ""
    if line:
        yield line


def _unescape(text: str) -> str:
    return _ESCAPE.sub(lambda match: _character(match[1]), text)


def _character(escaped: str) -> str:
    return chr(int(escaped[1:], 16)) if len(escaped) > 1 else _CONTROLS.get(escaped, escaped)


def _escape(text: str) -> str:
    text = text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
    text = text.replace("\f", "\\f")
    return f"\\{text}" if text.startswith(" ") else text


def _escape_key(key: str) -> str:
    return re.sub(r"([ :=#!])", r"\\\1", _escape(key))
