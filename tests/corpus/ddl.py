"""Spark's DDL of columns, as Arrow's types and in one spelling, without a Spark."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pyarrow as pa

_PLAIN = {
    "byte": pa.int8(),
    "short": pa.int16(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
_ALIASES = {
    "tinyint": "byte",
    "smallint": "short",
    "integer": "int",
    "bigint": "long",
    "real": "float",
    "void": "string",
}
_TOKEN = re.compile(r"`(?:[^`]|``)*`|[^\s,:<>()`]+|[,:<>()]")


def columns(ddl: str) -> pa.Schema:
    """The columns as Spark exchanges them with Python."""
    tokens = _Tokens(ddl)
    fields = []
    while tokens.ahead is not None:
        name = tokens.name()
        tokens.skip(":")
        fields.append(pa.field(name, _kind(tokens)))
        while tokens.ahead not in {",", None}:
            tokens.take()  # NOT NULL and comments
        tokens.skip(",")
    return pa.schema(fields)


def spelled(ddl: str) -> str:
    """The columns in one spelling; as they are if a type has no values here."""
    try:
        return _spelled(ddl)
    except ValueError:
        return ddl


def _spelled(ddl: str) -> str:
    return ", ".join(f"{field.name} {_shown(field.type)}" for field in columns(ddl))


class _Tokens:
    def __init__(self, ddl: str) -> None:
        self._rest: Iterator[str] = iter(_TOKEN.findall(ddl))
        self.ahead = next(self._rest, None)

    def take(self) -> str:
        token, self.ahead = self.ahead, next(self._rest, None)
        return token or ""

    def skip(self, token: str) -> bool:
        return self.ahead == token and bool(self.take())

    def name(self) -> str:
        name = self.take()
        return name[1:-1].replace("``", "`") if name.startswith("`") else name


def _kind(tokens: _Tokens) -> pa.DataType:
    name = tokens.take().lower()
    name = _ALIASES.get(name, name)
    if name == "decimal":
        precision, scale = 10, 0
        if tokens.skip("("):
            precision = int(tokens.take())
            scale = int(tokens.take()) if tokens.skip(",") else 0
            tokens.skip(")")
        return pa.decimal128(precision, scale)
    if name in _PLAIN:
        return _PLAIN[name]
    if name not in {"struct", "array", "map"}:
        raise ValueError(f"{name} is no type that has values here")
    tokens.skip("<")
    if name == "struct":
        fields = []
        while not tokens.skip(">"):
            field = tokens.name()
            tokens.skip(":")
            fields.append(pa.field(field, _kind(tokens)))
            tokens.skip(",")
        return pa.struct(fields)
    kinds = [_kind(tokens)]
    if tokens.skip(","):
        kinds.append(_kind(tokens))
    tokens.skip(">")
    return pa.list_(pa.field("element", kinds[0])) if name == "array" else pa.map_(*kinds)


def _shown(kind: pa.DataType) -> str:
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_struct(kind):
        return f"struct<{','.join(f'{field.name}:{_shown(field.type)}' for field in kind)}>"
    if pa.types.is_map(kind):
        return f"map<{_shown(kind.key_type)},{_shown(kind.item_type)}>"
    if pa.types.is_list(kind):
        return f"array<{_shown(kind.value_type)}>"
    return next(name for name, plain in _PLAIN.items() if plain == kind)
