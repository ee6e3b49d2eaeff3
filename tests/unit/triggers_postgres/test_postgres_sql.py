from __future__ import annotations

from urllib.parse import quote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asset_job.sources.table_names import table_sql
from config.models.uris import normalise
from triggers.postgres.new_rows import NewRows
from triggers.postgres.options import NewRowsOptions
from triggers.postgres.sql import condition
from triggers.shared.postgres.sql import TableName, quoted, row_as_json
from triggers.shared.postgres.values import ValueType


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
        ('shop."a', TableName(schema="shop", name='"a')),
        ('"shop"."orders"', TableName(schema="shop", name="orders")),
        ('"a.b"."c ""d"""', TableName(schema="a.b", name='c "d"')),
        ('"""a"."."', TableName(schema='"a', name=".")),
    ],
)
def test_a_table_is_schema_dot_name(text: str, table: TableName) -> None:
    assert TableName.parse(text) == table


@pytest.mark.parametrize(
    "text", ['"orders"', '"shop"."orders', '"shop".orders', '"a"b"."c"', '""."c"', '"a"."b"."c"', '"']
)
def test_a_quoted_name_is_one_schema_and_one_table(text: str) -> None:
    with pytest.raises(ValueError, match="a table that begins with"):
        TableName.parse(text)


NAMES = st.text(st.sampled_from('a".é /%{}$1'), min_size=1, max_size=6)


@given(schema=NAMES, name=NAMES)
def test_a_name_is_read_as_it_is_written_by_the_daemon_the_uri_and_the_sdk(schema: str, name: str) -> None:
    table = TableName(schema=schema, name=name)
    sql = ".".join('"' + part.replace('"', '""') + '"' for part in (schema, name))
    assert TableName.parse(str(table)) == TableName.parse(sql) == table
    assert table_sql(str(table)) == table_sql(sql) == table.sql == sql
    if "." not in schema and not schema.startswith('"'):
        assert str(table) == f"{schema}.{name}"
    uri = f"postgres://shop/shop/{quote(schema, safe='')}/{quote(name, safe='')}"
    assert NewRows.defaults(urlsplit(normalise(uri)).geturl()) == {"table": str(table)}
    assert NewRowsOptions.model_validate({"table": sql}).table == str(table)


def test_a_comment_in_a_condition_ends_with_its_line() -> None:
    assert condition("a > 1 -- or so") == "(\na > 1 -- or so\n)"
    assert condition(None) == "true"


def test_only_decimals_are_turned_into_text() -> None:
    assert row_as_json([], {}) == "NULL::text"
    assert '"price"::text AS "price", "note" AS "note"' in row_as_json(
        ["price", "note"], {"price": ValueType(is_numeric=True), "note": ValueType()}
    )
