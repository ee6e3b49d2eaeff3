"""The names of the columns in a schema that is written as Spark's DDL. Whether the types exist is for Spark to say."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

_PIECE = re.compile(r"`(?:[^`]|``)*`|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|[<>(),]|[^<>(),`'\"]+", re.DOTALL)
_NAME = re.compile(r"\s*(?:`((?:[^`]|``)+)`|([^\s:`]+))(?=[\s:])", re.DOTALL)


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
