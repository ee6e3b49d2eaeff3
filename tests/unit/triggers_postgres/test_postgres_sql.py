from __future__ import annotations

import pytest

from triggers.postgres.sql import TableName, condition, quoted, row_as_json
from triggers.postgres.values import ValueType


def test_names_are_quoted_whatever_characters_they_hold() -> None:
    assert quoted("id") == '"id"'
    assert quoted('Odd "name"; --') == '"Odd ""name""; --"'


@pytest.mark.parametrize("name", ["", "a\0b"])
def test_an_invalid_name_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="an SQL name"):
        quoted(name)


@pytest.mark.parametrize(
    ("text", "table"),
    [
        ("shop.orders", TableName(schema="shop", name="orders")),
        ("orders", TableName(schema="public", name="orders")),
        ("shop.a.b", TableName(schema="shop", name="a.b")),
    ],
)
def test_a_table_is_schema_dot_name(text: str, table: TableName) -> None:
    assert TableName.parse(text) == table


def test_a_comment_in_a_condition_ends_with_its_line() -> None:
    assert condition("a > 1 -- or so") == "(\na > 1 -- or so\n)"
    assert condition(None) == "true"


def test_only_decimals_are_turned_into_text() -> None:
    assert row_as_json([], {}) == "NULL::text"
    assert '"price"::text AS "price", "note" AS "note"' in row_as_json(
        ["price", "note"], {"price": ValueType(is_numeric=True), "note": ValueType()}
    )
