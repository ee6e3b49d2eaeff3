"""Reads each of many odd lines of JSON by `s3files` and by Spark's own reader, and prints where they differ.

python json_both_ways.py SEED LINES
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Any

from both_ways import BothWays, main
from pyspark.sql import DataFrame

from asset_job.sources.by_arrow import ReadByArrow
from asset_job.sources.json_lines import ReadJson, rows_of


def words(text: str) -> list[str]:
    return text.split()


DDL = """id long, n int, small smallint, amount double, ok boolean, note string, day date, at timestamp, wall timestamp_ntz,
    s struct<id: long, note: string>, l array<int>, line string, `odd. name` string"""
NUMBERS = words(
    r"""0 -0 1 -1 01 1.0 1.5 -0.0 1e2 1E400 1e-400 9223372036854775807 9223372036854775808 2147483648 32768 NaN Infinity
    -Infinity Inf -Inf INF +1 .5 1. - "NaN" "1" 0.1 0.30000000000000004 123456789012345678901234567890 5e-324
    -NaN 1.7976931348623157e308 0x1 1_0"""
)
TEXTS = [
    *words(
        r"""  "" "a" "\u00e9" "é" "\ud800" "\ud83d\ude00" "\n" 'a' "\x" "\/" "\u0000" "Info" "}\n{" "-0" "NaN" "null" "true" "Inf" """
    ),
    *('"a\tb"', '"\x7f"', '"\u2028"'),
]
DAYS = words(
    r'''"2026-11-20" "2026-1-2" "0000-01-01" "0001-01-01" "1582-10-10" "9999-12-31" "2026-02-30" "2026-11-20T09:00:00"
    "now" "epoch" "12026-01-01" "-0001-01-01" 20000 "2026" "2026-11" "1900-01-01"'''
)
MOMENTS = [
    f'"2026-11-20{rest}"'
    for rest in (
        *("", "T09Z", "T09:00Z", "T09:00:00", " 09:00", "T09:00:00Z", " 09:00:00+01:00", "T09:00:00z", "T9:00:00Z"),
        *("T09:00:00.123456Z", "T09:00:00.1234567Z", "T09:00:00.5", "T09:00:00.Z", "T09:00:00.1+01:00"),
        *("T09:00:00+0100", "T09:00:00+01", "T09:00:00-18:00", "T09:00:00+19:00", "T09:00:00+23:59", "T09:00:00-00:00"),
        *("T09:00:00+17:59", "T09:00:00+01:00:00", "T09:00:00 UTC", "T24:00:00Z", "T23:59:60Z"),
    )
]
MOMENTS += words(
    r'''"0001-01-01T00:00:00Z" "1800-01-01T00:00:00" "9999-12-31T23:59:59.999999Z" "0000-06-01T00:00:00Z" 1 1.5
    "2026-03-08T02:30:00" "T09:00:00"'''
)
OTHERS = words(
    r"""null true false True [] {} [1,2] [1,null] ["1"] [1.5] {"id":1} {"id":"x"} {"note":3} [[1]] undefined
    {"id":1,"note":"n","more":{"a":[1]}}"""
)
ANY = [*NUMBERS, *TEXTS, *DAYS, *MOMENTS, *OTHERS, ""]
FITTING = {
    **dict.fromkeys(("id", "n", "small", "amount", "Id"), NUMBERS),
    **dict.fromkeys(("note", "line", "odd. name"), TEXTS),
    **dict.fromkeys(("at", "wall"), MOMENTS),
    "day": DAYS,
    "ok": ["true", "false", "null"],
    "s": words(r'{"id":1} {"note":"x","id":2} {} null {"id":"x"} {"id":1,"id":2} [] {"note":{"a":1}}'),
    "l": words(r'[1,2] [] [null] null [1,"x"] [2147483648] {} [NaN]'),
    "other": ANY,
}
SPACES = [*[""] * 12, " ", "\t", "  "]


def an_object(draw: random.Random) -> str:
    names = [draw.choice(list(FITTING)) for _ in range(draw.choice([0, 1, 1, 1, 2, 3, 5]))]
    values = [draw.choice(FITTING[name] if draw.random() < 0.85 else ANY) for name in names]
    blank = [[draw.choice(SPACES) for _ in range(4)] for _ in names]
    members = (f'{a}"{n}"{b}:{c}{v}{d}' for n, v, (a, b, c, d) in zip(names, values, blank, strict=True))
    return "{" + ",".join(members) + "}"


def a_line(draw: random.Random) -> str:
    plain, number = an_object(draw), draw.choice([998, 999, 1000, 1001, 1500])
    broken = draw.randrange(len(plain))
    odd = [
        *(plain + an_object(draw), plain + " ", " " + plain, plain[:-1], plain[1:], plain + ",", plain + "}"),
        *(plain + "\0}", plain + "x}", plain + "//c}", "\ufeff" + plain, '{"id":1} }', '{"id":2}\0}', "[]"),
        *("", " ", "\t", "\0", "\x0b", "\u00a0", "//c", draw.choice(ANY)),
        *("[" + ",".join(an_object(draw) for _ in range(count)) + "]" for count in range(4)),
        plain[:broken] + draw.choice('{}[]",:0\\ea \0') + plain[broken + 1 :],
        "{" * number + "}",
        '{"id":7,"other":' + "[" * number + "]" * number + "}",
        '{"other":' + draw.choice(["1", "-", "1.", "e"]) * number + ',"id":4}',
        '{"note":"' + "a" * draw.choice([number, 49_000, 51_000, 200_000]) + '","id":3}',
        '{"' + "k" * draw.choice([number, 49_000, 51_000]) + '":1,"id":3}',
    ]
    return (plain if draw.random() < 0.6 else draw.choice(odd)).replace("\n", " ").replace("\r", " ")


class Json(BothWays):
    def by_arrow(self) -> ReadByArrow | None:
        return ReadJson.of(self.rows)

    def rows_of(self, mixed: DataFrame) -> DataFrame:
        return rows_of(mixed, self.rows)

    def spark_reader(self, java_reader: Any) -> Callable[[Any], Any]:
        return java_reader.json


if __name__ == "__main__":
    main([(partial(Json, columns=DDL), a_line)])
