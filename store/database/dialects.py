"""The few constructs in which SQLite and PostgreSQL differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias, TypeVar

from sqlalchemy import BigInteger, ColumnElement, Table, TableValuedAlias, Text, any_, bindparam, cast, func, literal
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.types import TypeEngine

Upsert: TypeAlias = postgresql.Insert | sqlite.Insert
T = TypeVar("T")

MANY: Final = 5_000
"""The most values in one statement, far below the 32,766 parameters that both databases accept."""


def upsert(table: Table, dialect: str) -> Upsert:
    """Return an INSERT that supports ON CONFLICT. Both databases spell it alike.

    SQLAlchemy keeps one class per dialect.
    """
    return postgresql.insert(table) if dialect == "postgresql" else sqlite.insert(table)


def each_pair(parameter: str, dialect: str) -> TableValuedAlias:
    """Return the members (`key`, `value`) of a JSON object as rows; the object is one parameter's text."""
    given = bindparam(parameter, type_=Text())
    if dialect == "postgresql":
        return func.json_each_text(cast(given, postgresql.JSON)).table_valued("key", "value", name="asked")
    return func.json_each(given).table_valued("key", "value", name="asked")


def is_one_of(numbers: ColumnElement[int], given: Sequence[int], dialect: str) -> ColumnElement[bool]:
    """Return the condition that a number is one of these.

    PostgreSQL gets them as one parameter: it parses and plans thousands of them longer than it reads their rows.
    """
    if dialect == "postgresql":
        return numbers == any_(literal([*given], postgresql.ARRAY(BigInteger)))
    return numbers.in_(given)


def chunks(values: Sequence[T]) -> Iterator[Sequence[T]]:
    """Yield the values in pieces that fit one statement."""
    for start in range(0, len(values), MANY):
        yield values[start : start + MANY]


def rows_of(name: str, columns: Mapping[str, TypeEngine[Any]]) -> TableValuedAlias:
    """Return PostgreSQL's table of rows that are given as parameters.

    The parameters are an array `<name>_<column>` for each column; the table has their `place` as well.
    """
    arrays = (bindparam(f"{name}_{column}", type_=postgresql.ARRAY(type_)) for column, type_ in columns.items())
    return func.unnest(*arrays).table_valued(*columns, with_ordinality="place", name=name).render_derived()
