"""Names and expressions of SQL for a watched PostgreSQL."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote, urlsplit

from triggers.shared.postgres.values import ValueType

_QUOTED_TABLE: Final = re.compile(r'"((?:[^"]|"")+)"\."((?:[^"]|"")+)"')


def quoted(identifier: str) -> str:
    """Return the identifier as SQL, whatever characters it holds."""
    if not identifier or "\0" in identifier:
        raise ValueError("an SQL name is not empty and holds no NUL")
    return '"' + identifier.replace('"', '""') + '"'


@dataclass(frozen=True, kw_only=True, slots=True)
class TableName:
    """A table's schema and name, exactly as the catalog has them: case and blanks count."""

    schema: str
    name: str

    @classmethod
    def parse(cls, text: str) -> TableName:
        """Read `schema.table`, or `"schema"."table"` as SQL quotes it.

        Unquoted, everything after the first dot is the table, and without a dot the schema is `public`.
        """
        schema, dot, name = text.partition(".")
        table = cls(schema=schema, name=name) if dot else cls(schema="public", name=text)
        if text.startswith('"'):
            if (parts := _QUOTED_TABLE.fullmatch(text)) is None:
                raise ValueError(
                    'a table that begins with " is "schema"."table" as SQL quotes it, each " in a name doubled'
                )
            table = cls(schema=parts[1].replace('""', '"'), name=parts[2].replace('""', '"'))
        quoted(table.schema), quoted(table.name)
        return table

    @property
    def sql(self) -> str:
        return f"{quoted(self.schema)}.{quoted(self.name)}"

    def __str__(self) -> str:
        """The name as events and positions have it: in quotes only if it would be read as another one without them."""
        return self.sql if "." in self.schema or self.schema.startswith('"') else f"{self.schema}.{self.name}"


def table_of_uri(uri: str) -> TableName | None:
    """Return the table that `postgres://host/database/schema/table` names, each part percent-encoded; None for another URI."""
    parts = urlsplit(uri)
    match parts.path.split("/"):
        case [_, _, schema, table] if parts.scheme == "postgres":
            return TableName(schema=unquote(schema), name=unquote(table))
    return None


def row_as_json(columns: Sequence[str], types: Mapping[str, ValueType]) -> str:
    """Return an expression for one row's `columns` as JSON text; without columns it is null.

    The rules of PostgreSQL's to_json apply: timestamps are ISO 8601 strings, bytea is a hexadecimal string, NaN is a string.
    The exceptions are numeric, which becomes a string too, because JSON readers would round it, and an array whose subscripts
    do not begin at 1, which becomes the string that PostgreSQL writes.
    """
    if not columns:
        return "NULL::text"
    items = ", ".join(f"{_exact(name, types)} AS {quoted(name)}" for name in columns)
    return f"(SELECT row_to_json(item)::text FROM (SELECT {items}) item)"  # noqa: S608  # names are quoted


def primary_key_as_json(columns: Sequence[str], types: Mapping[str, ValueType]) -> str:
    """Return an expression for a key as JSON text: its value, or a list of values when it has several columns."""
    values = ", ".join(_exact(name, types) for name in columns)
    return f"to_json({values})::text" if len(columns) == 1 else f"json_build_array({values})::text"


def _exact(name: str, types: Mapping[str, ValueType]) -> str:
    return types[name].in_json(quoted(name)) if name in types else quoted(name)
