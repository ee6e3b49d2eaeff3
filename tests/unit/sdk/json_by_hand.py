"""A second, slow reading of JSON files, character by character after RFC 8259. It shares no code with the reader."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal, localcontext
from typing import Any

import pyarrow as pa

from asset_job.sources.json.parser import JsonParser
from asset_job.sources.options import ReadOptions
from asset_job.sources.records import BadRecord
from tests.unit.sdk.in_memory import InMemory

Bad = tuple[str, int, int]
"""Record, line and count of a bad record."""
Outcome = tuple[list[dict[str, Any]], list[Bad]]


def read(body: bytes, columns: pa.Schema, *, seed: int = 0, largest: int = 7, **options: str) -> Outcome:
    """The good rows and bad records by the reader that is tested."""
    parser = JsonParser(columns=columns, options=ReadOptions.of("json", options))
    rows, bad = [], []
    for parsed in parser.parse(InMemory(body, seed, largest)):
        if isinstance(parsed, BadRecord):
            bad.append((parsed.record, int(parsed.at.removeprefix("line ")), parsed.count))
            assert parsed.reason
        else:
            assert parsed.schema == columns
            parsed.validate(full=True)
            rows += parsed.to_pylist()
    return rows, bad


class Wrong(Exception):
    """The text breaks the grammar."""


class Unfit(Exception):
    """A value is none of its column."""


Token = tuple[str, Any, str]
"""Kind (`object`, `array`, `text`, `number`, `word`), the value, and its text. An object's value are pairs."""
WHITE = " \t\r\n"


def white(text: str, at: int) -> int:
    while at < len(text) and text[at] in WHITE:
        at += 1
    return at


def value(text: str, at: int, depth: int = 1) -> tuple[Token, int]:
    """The value that begins here, and where it ends."""
    begin = at
    if text[at : at + 1] in {"{", "["}:
        if depth > 500:
            raise Wrong
        items, at = members(text, at, depth)
        return ("object" if text[begin] == "{" else "array", items, text[begin:at]), at
    if text[at : at + 1] == '"':
        content, at = string(text, at)
        return ("text", content, text[begin:at]), at
    for word in ("true", "false", "null"):
        if text.startswith(word, at):
            return ("word", word, word), at + len(word)
    match = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?").match(text, at)
    if not match:
        raise Wrong
    return ("number", match[0], match[0]), match.end()


def members(text: str, at: int, depth: int) -> tuple[list[Any], int]:
    close, items = ("}" if text[at] == "{" else "]"), []
    at = white(text, at + 1)
    if text[at : at + 1] == close:
        return items, at + 1
    while True:
        name = None
        if close == "}":
            if text[at : at + 1] != '"':
                raise Wrong
            name, at = string(text, at)
            at = white(text, at)
            if text[at : at + 1] != ":":
                raise Wrong
            at = white(text, at + 1)
        item, at = value(text, at, depth + 1)
        items.append(item if name is None else (name, item))
        at = white(text, at)
        if text[at : at + 1] == close:
            return items, at + 1
        if text[at : at + 1] != ",":
            raise Wrong
        at = white(text, at + 1)


def string(text: str, at: int) -> tuple[str, int]:
    units: list[int] = []
    at += 1
    while True:
        character = text[at : at + 1]
        if character == '"':
            break
        if character < " ":  # also at the end
            raise Wrong
        if character != "\\":
            units += [int.from_bytes(pair, "big") for pair in pairs(character)]
            at += 1
            continue
        escape = text[at + 1 : at + 2]
        if escape == "u":
            if not re.fullmatch(r"[0-9a-fA-F]{4}", text[at + 2 : at + 6]):
                raise Wrong
            units.append(int(text[at + 2 : at + 6], 16))
            at += 6
        elif escape and escape in '"\\/bfnrt':
            units.append(ord(dict(zip('"\\/bfnrt', '"\\/\b\f\n\r\t', strict=True))[escape]))
            at += 2
        else:
            raise Wrong
    return b"".join(unit.to_bytes(2, "big") for unit in units).decode("utf-16-be", "surrogatepass"), at + 1


def pairs(character: str) -> list[bytes]:
    encoded = character.encode("utf-16-be", "surrogatepass")
    return [encoded[at : at + 2] for at in range(0, len(encoded), 2)]


def is_clean(token: Token) -> bool:
    """Whether all texts consist of characters."""
    kind, content, _ = token
    if kind == "text":
        return not any("\ud800" <= character <= "\udfff" for character in content)
    if kind == "object":
        return all(is_clean(("text", name, "")) and is_clean(item) for name, item in content)
    return all(map(is_clean, content)) if kind == "array" else True


def fitted(token: Token, kind: pa.DataType) -> Any:
    """The value of a column, computed by Python. Raises `Unfit`."""
    form, content, text = token
    if token[:2] == ("word", "null"):
        return None
    if pa.types.is_nested(kind):
        return nested(form, content, kind)
    if pa.types.is_string(kind):
        return content if form == "text" else text
    if form in {"object", "array"}:
        raise Unfit
    return scalar(content.strip(" "), kind)


def nested(form: str, content: Any, kind: pa.DataType) -> Any:
    if form != ("array" if pa.types.is_list(kind) else "object"):
        raise Unfit
    if pa.types.is_list(kind):
        return [fitted(item, kind.value_type) for item in content]
    names, inside = [name for name, _ in content], dict(content)
    if any(names.count(name) > 1 for name in (names if pa.types.is_map(kind) else [each.name for each in kind])):
        raise Unfit
    if pa.types.is_map(kind):
        return [(name, fitted(item, kind.item_type)) for name, item in content]
    return {each.name: fitted(inside[each.name], each.type) if each.name in inside else None for each in kind}


def scalar(text: str, kind: pa.DataType) -> Any:
    if pa.types.is_boolean(kind):
        if text.lower() not in {"true", "false", "t", "f"}:
            raise Unfit
        return text.lower()[0] == "t"
    if pa.types.is_integer(kind):
        if not re.fullmatch(r"[+-]?[0-9]+", text) or abs(int(text)) > 2 ** (kind.bit_width - 1):
            raise Unfit
        if int(text) == 2 ** (kind.bit_width - 1):
            raise Unfit
        return int(text)
    return number(text, kind)


def number(text: str, kind: pa.DataType) -> Any:
    if pa.types.is_floating(kind) and re.fullmatch(r"NaN|[+-]?Infinity", text):
        return float(text)
    if not re.fullmatch(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?", text):
        raise Unfit
    is_zero = not re.search("[1-9]", re.split("[eE]", text)[0])
    if pa.types.is_floating(kind):
        nearest = float(text)
        if abs(nearest) == float("inf") or (nearest == 0 and not is_zero):
            raise Unfit
        return nearest
    with localcontext(prec=3000, Emax=999999, Emin=-999999):
        exact = Decimal(0) if is_zero else Decimal(text)
        if (
            abs(exact.adjusted()) > 1000
            or exact.scaleb(kind.scale) % 1
            or abs(exact) >= 10 ** (kind.precision - kind.scale)
        ):
            raise Unfit
        return (exact + 0).quantize(Decimal(1).scaleb(-kind.scale))


def row(token: Token | None, columns: pa.Schema) -> Any:
    if token is None:
        raise Unfit
    return fitted(token, pa.struct(list(columns)))


def repeats(token: Token) -> bool:
    """Whether an object in the value has a name more than once."""
    kind, content, _ = token
    if kind == "object":
        return len(dict(content)) < len(content) or any(repeats(item) for _, item in content)
    return kind == "array" and any(map(repeats, content))


def line_ends(text: str) -> int:
    return len(re.findall(r"\r\n|\r|\n", text))


def shown(text: str) -> str:
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


@dataclass
class ByHand:
    """The outcome of a whole file, which is in memory."""

    text: str
    columns: pa.Schema

    def outcome(self) -> Outcome:
        self.rows: list[dict[str, Any]] = []
        self.bad: list[Bad] = []
        self.unfit = 0
        """Objects with a value that does not fit its column."""
        if not white_only(self.text):
            self._lines() if self._is_of_lines() else self._sequence()
        return self.rows, self.bad

    def _is_of_lines(self) -> bool:
        begin = white(self.text, 0)
        try:
            _, end = self._top(begin)
        except Wrong:
            return False
        return not line_ends(self.text[begin:end])

    def _top(self, at: int) -> tuple[list[tuple[Token, int]], int]:
        """The values of one value at the top, with their places, and where it ends."""
        items: list[tuple[Token, int]] = []
        at = self._walk(at, items)
        return items, at

    def _walk(self, at: int, items: list[tuple[Token, int]]) -> int:
        """Append one value, or those of an array. Raises `Wrong`, whose argument is the place of what breaks."""
        if self.text[at : at + 1] != "[":
            return self._item(at, items)
        at = white(self.text, at + 1)
        if self.text[at : at + 1] == "]":
            return at + 1
        while True:
            at = white(self.text, self._item(at, items))
            if self.text[at : at + 1] == "]":
                return at + 1
            if self.text[at : at + 1] != ",":
                raise Wrong(at)
            at = white(self.text, at + 1)

    def _item(self, at: int, items: list[tuple[Token, int]]) -> int:
        try:
            token, end = value(self.text, at)
        except Wrong:
            raise Wrong(at) from None
        items.append((token, at))
        return end

    def _emit(self, items: list[tuple[Token, int]]) -> None:
        for token, at in items:
            is_object = shown(token[2]) == token[2] and is_clean(token) and token[0] == "object"
            try:
                self.rows.append(row(token if is_object else None, self.columns))
            except Unfit:
                self.unfit += is_object and not repeats(token)
                self.bad.append((shown(token[2]), 1 + line_ends(self.text[:at]), 1))

    def _sequence(self) -> None:
        at = white(self.text, 0)
        while at < len(self.text):
            items: list[tuple[Token, int]] = []
            try:
                at = white(self.text, self._walk(at, items))
            except Wrong as wrong:
                self._emit(items)
                begin = wrong.args[0]
                rest = self.text[begin:]
                count = line_ends(rest) + (not rest.endswith(("\r", "\n")))
                self.bad.append((shown(rest).rstrip("\r\n"), 1 + line_ends(self.text[:begin]), count))
                return
            self._emit(items)

    def _lines(self) -> None:
        at = 0
        while not white_only(self.text[at:]):
            begin = at
            items: list[tuple[Token, int]] = []
            try:
                while True:
                    at = self._walk(white(self.text, at), items)
                    if re.compile(r"[ \t]*(?:[\r\n]|\Z)").match(self.text, at):
                        break
            except Wrong:
                begin = self._line_of(begin)
                match = re.compile(r"[^\r\n]*").match(self.text, begin)
                assert match
                at = match.end()
                self.bad.append((shown(match[0]), 1 + line_ends(self.text[:begin]), 1))
            else:
                self._emit(items)

    def _line_of(self, at: int) -> int:
        """Where the first line that is not blank begins."""
        blank = self.text[at : white(self.text, at)]
        return at + max(blank.rfind("\r"), blank.rfind("\n")) + 1


def white_only(text: str) -> bool:
    return not text.strip(WHITE)
