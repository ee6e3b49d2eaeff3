"""Schemas that are written as Spark's DDL: the names of the columns, and words that are no types.

What this accepts is Spark's to judge; what this refuses, Spark refuses too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Final

_PIECE = re.compile(r"`(?:[^`]|``)*`|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|[<>(),]|[^<>(),`'\"]+", re.DOTALL)
_NAME = re.compile(r"\s*(?:`((?:[^`]|``)+)`|([^\s:`]+))(?=[\s:])", re.DOTALL)

_KNOWN: Final = (
    "array bigint binary boolean byte char character date dec decimal double float geography geometry int integer interval "
    "long map null numeric real short smallint string struct time timestamp timestamp_ltz timestamp_ntz tinyint varchar "
    "variant void"
)
_TYPES: Final = frozenset(_KNOWN.split())
_USUAL: Final = ("string", "long", "int", "double", "decimal(18,2)", "boolean", "date", "timestamp")
_ELSEWHERE: Final[Mapping[str, str]] = {
    "string": "text str varchar2 nvarchar clob uuid json jsonb object enum utf8 unicode citext inet",
    "long": "int8 bigserial int64 uint32 serial8",
    "int": "int4 int32 serial mediumint uint16",
    "short": "int2 int16 uint8",
    "double": "number money numeric64 float64 float8",
    "float": "float32 float4",
    "boolean": "bool bit",
    "timestamp": "datetime datetime2 timestamptz datetime64 instant",
    "binary": "bytes bytea blob varbinary",
    "array<string>": "list set tuple",
    "map<string, string>": "dict hash",
}
"""Words of databases and languages, by the type of Spark's that holds them."""
_MEANT: Final[Mapping[str, str]] = {word: meant for meant, words in _ELSEWHERE.items() for word in words.split()}
_WORD = re.compile(r"\s*(\w+)\s*", re.ASCII)
_FULL_NAME = re.compile(r"\s*(?:`(?:[^`]|``)+`|[^\s:`<>(),]+)")


def type_faults(ddl: str) -> Iterator[str]:
    """Yield a sentence for each column without a type, and for each word in the place of a type that is none."""
    if not ddl.strip() or "--" in ddl or "/*" in ddl:  # Spark knows comments
        return
    if ddl.lstrip().startswith("{"):
        yield "is JSON: write the columns as `id long, amount double`"
        return
    if (whole := _WORD.match(ddl)) and whole[1].lower() in _TYPES and ddl[whole.end() :][:1] in ("", "<", "("):
        yield from _faults_of_type(ddl.strip(), "the schema")  # a single type, which Spark accepts too
        return
    for column in _columns(ddl):
        yield from _faults_of_column(column)


def _faults_of_column(column: str) -> Iterator[str]:
    match = _FULL_NAME.match(column)
    if match is None:
        yield (
            "a column without a name: remove the comma too many"
            if not column.strip()
            else f"`{column.strip()}` is no column"
        )
        return
    name, written = match[0].strip(), column[match.end() :].strip().removeprefix(":").strip()
    shown = name if name.startswith("`") else f"`{name}`"
    if written:
        swapped = _WORD.fullmatch(written) if name.lower() in _TYPES else None
        if swapped is not None and swapped[1].lower() not in _TYPES:
            yield f"`{name} {swapped[1]}` has the type first: write `{swapped[1]} {name}`"
            return
        yield from _faults_of_type(written, shown)
    else:
        yield f"{shown} has no type: write one behind the name, such as `{name} string` (known: {', '.join(_USUAL)}, …)"


def _faults_of_type(written: str, shown: str) -> Iterator[str]:
    """Yield what is wrong with the type at the beginning of `written`; what follows it is not looked at."""
    match = _WORD.match(written)
    word = match[1] if match else written.split(maxsplit=1)[0]
    if match is None or word.lower() not in _TYPES:
        yield f"`{word}`, the type of {shown}, is no type of Spark's; {_nearest(word)}"
    elif word.lower() in {"varchar", "char", "character"} and not written[match.end() :].startswith("("):
        yield f"`{word}`, the type of {shown}, needs a length: write `string`, or `{word}(100)`"
    elif word.lower() in {"array", "map", "struct"}:
        yield from _faults_of_parts(word.lower(), written[match.end() :], shown)


def _faults_of_parts(kind: str, behind: str, shown: str) -> Iterator[str]:
    inner = _in_brackets(behind)
    if inner is None:
        form = {"array": "array<string>", "map": "map<string, long>", "struct": "struct<id: long>"}[kind]
        yield f"`{kind}`, the type of {shown}, needs the types in it: write it as `{form}`"
    elif kind == "struct":
        if inner.strip():
            for column in _columns(inner):
                yield from _faults_of_column(column)
    else:
        for each in _columns(inner):
            yield from _faults_of_type(each.strip() or "nothing", shown)


def _in_brackets(text: str) -> str | None:
    """What stands between the brackets at the beginning of `text`; None if there are none."""
    if not text.startswith("<"):
        return None
    depth = 0
    for piece in _PIECE.finditer(text):
        depth += (piece[0] in "<(") - (piece[0] in ">)")
        if not depth:
            return text[1 : piece.start()]
    return None


def _nearest(word: str) -> str:
    lower = word.lower()
    near = _MEANT.get(lower) or next(iter(get_close_matches(lower, sorted(_TYPES - {"null", "void"}), n=1)), None)
    return f"did you mean `{near}`?" if near else f"known: {', '.join(_USUAL)}, …"


def column_names(ddl: str) -> Sequence[str]:
    """Return the names of the top columns: `id` and `a b` of "id long, `a b` struct<x: int, y: int>"."""
    names = (_NAME.match(column) for column in _columns(ddl))
    return [name[1].replace("``", "`") if name[1] else name[2] for name in names if name]


def _columns(ddl: str) -> Iterator[str]:
    """Yield the text of each column. A comma in brackets or quotes divides nothing."""
    depth, column = 0, ""
    for piece in _PIECE.findall(ddl):
        depth += (piece in "<(") - (piece in ">)")
        if piece == "," and not depth:
            yield column
            column = ""
        else:
            column += piece
    yield column
