"""The names of columns in Spark's DDL, whatever they contain, and words that are no types."""

from __future__ import annotations

import pytest

from config.models.ddl import column_names, type_faults


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


@pytest.mark.parametrize(
    ("ddl", "faults"),
    [
        ("id longg", ["`longg`, the type of `id`, is no type of Spark's; did you mean `long`?"]),
        ("id text, `a b` uuid", ["did you mean `string`?", "`uuid`, the type of `a b`"]),
        (
            "id int64, at datetime, ok bool",
            ["did you mean `long`?", "did you mean `timestamp`?", "did you mean `boolean`?"],
        ),
        ("s struct<a: int, b: strin>, m map<strng, int>", ["`strin`, the type of `b`", "`strng`, the type of `m`"]),
        ("l array<longg>", ["`longg`, the type of `l`"]),
        ("l array", ["write it as `array<string>`"]),
        ("name varchar", ["write `string`, or `varchar(100)`"]),
        ("long id", ["write `id long`"]),
        ("id, x long", ["`id` has no type"]),
        ("x", ["`x` has no type"]),
        ("id zzz", ["known: string, long"]),
        ("id long,", ["remove the comma too many"]),
        ('{"type": "struct"}', ["is JSON"]),
    ],
)
def test_a_word_that_is_no_type_is_named(ddl: str, faults: list[str]) -> None:
    found = [*type_faults(ddl)]
    assert len(found) == len(faults)
    assert all(part in fault for part, fault in zip(faults, found, strict=True)), found


@pytest.mark.parametrize(
    "ddl",
    [
        "id long, amount decimal(10,2) not null, day date comment 'a, b: c', t TIMESTAMP_NTZ",
        "s struct<a: int, `b,c`: array<map<string, int>>>, e struct<>, i interval day to second, v varchar(10)",
        "date date, long long, struct struct<x: int>",
        "id: bigint, n numeric, r real, b byte, x variant",
        "long",
        "struct<id: long>",
        "id long -- the number\n, x string",
        "",
    ],
)
def test_what_spark_accepts_is_accepted(ddl: str) -> None:
    assert [*type_faults(ddl)] == []
