"""The names of columns in Spark's DDL, whatever they contain."""

from __future__ import annotations

import pytest

from config.models.ddl import column_names


@pytest.mark.parametrize(
    ("ddl", "names"),
    [
        ("id long, amount decimal(10,2), day date", ["id", "amount", "day"]),
        ("id: long,amount:double", ["id", "amount"]),
        ("s struct<a: int, `b,c`: array<map<string, int>>>, t timestamp", ["s", "t"]),
        ("`a b` int, `x.y` int, `tick``ed` int, `Id` int, `id` int", ["a b", "x.y", "tick`ed", "Id", "id"]),
        ("`a,b` int COMMENT 'one, \\'two\\', `three`', c int NOT NULL COMMENT \"d, e\"", ["a,b", "c"]),
        ("\n  größe\tdouble ,\n währung string", ["größe", "währung"]),
        ("", []),
        ("id", []),
    ],
)
def test_the_names_of_columns(ddl, names):
    assert column_names(ddl) == names
