"""Lines of CSV, most of them odd, for `both_ways.py`.

python csv_both_ways.py SEED LINES
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from both_ways import BothWays, Case, main
from json_both_ways import DAYS, MOMENTS, NUMBERS
from pyspark.sql import DataFrame

from asset_job.sources.by_arrow import ReadByArrow
from asset_job.sources.csv_lines import ReadCsv, rows_of

NUMERALS = [
    *NUMBERS,
    *("+5", "007", "0x1F", "0X1f", "1d", "1f", "1L", " 1", "1 ", "\t1", "\u0661", "127", "128", "-128", "nan", "inf"),
    *("1e", "5.", "1.e5", "0.005", "12345678.90", "123456789.01", "-99999999.99", "1.234", "00000000001.5", "1E-400"),
    *("2.2250738585072012e-308", "1" * 38, "1" * 39, "9" * 400, "true", ""),
]
TEXTS = [
    *(
        "",
        "a",
        " a",
        "a ",
        " ",
        "  ",
        "\u00e9",
        "NA",
        "null",
        "NULL",
        "N/A",
        "a b",
        "a\tb",
        "\t",
        "\x7f",
        "\u2028",
        "\u00a0",
    ),
    *(
        "'a'",
        "a\\b",
        "\\",
        "\\N",
        'a"b',
        'a"',
        '"',
        '"a"b',
        '"a" ',
        ' "a"',
        '"a',
        "\0",
        "\x01",
        "#a",
        "//a",
        ";",
        "|",
        "-",
    ),
    *(
        "\ufeff",
        "\ufffd",
        "\U0001f600",
        "x" * 5000,
        '"b,c"',
        '","',
        '""',
        '"a""b"',
        r'"a\"b"',
        r'"a\\"',
        '"a\\"',
        '"\\"',
        "1",
    ),
]
BARE_DAYS, BARE_MOMENTS = ([text.strip('"') for text in texts] for texts in (DAYS, MOMENTS))
FITTING: Mapping[str, tuple[str, list[str]]] = {
    **dict.fromkeys(
        ("long", "int", "smallint", "tinyint", "decimal(10,2)", "decimal(38,0)", "decimal(4,4)"), ("1", NUMERALS)
    ),
    "double": ("1.5", NUMERALS),
    "boolean": ("true", ["true", "false", "TRUE", "True", "tRue", "1", "0", "yes", " true", "t", ""]),
    "string": ("a", TEXTS),
    "date": ("2026-11-20", BARE_DAYS),
    "timestamp": ("2026-11-20T09:00:00Z", BARE_MOMENTS),
    "timestamp_ntz": ("2026-11-20 09:00:00", BARE_MOMENTS),
}
"""Of a type what most lines have, and what some have."""
BLANK = "".join(map(chr, range(ord(" ") + 1)))
ANY = [value for _, values in FITTING.values() for value in values]
TABLES = [
    list(FITTING),
    ["string"],
    ["long"],
    ["string", "string"],
    ["long", "string", "double", "decimal(10,2)"],
    ["string", "date", "string", "long"],
]


def a_line(types: list[str], separator: str, draw: random.Random) -> str:
    odd = draw.sample(range(len(types)), draw.choice([0, 1, 1, 1, min(2, len(types)), len(types)]))
    values = [a_value(kind, draw) if at in odd else FITTING[kind][0] for at, kind in enumerate(types)]
    if draw.random() < 0.1:
        values = values[: draw.randrange(len(types) + 1)] + draw.choice([[], [""], ["more"], ["", ""]])
    blank = draw.choice(["", " ", "  ", "\t", "\0", "\x0b", "\u00a0", "\x1f", ",", '""', '"', "\ufeff"])
    return blank if draw.random() < 0.05 else separator.join(values).replace("\n", " ").replace("\r", " ")


def a_value(kind: str, draw: random.Random) -> str:
    value = draw.choice(FITTING[kind][1] if draw.random() < 0.85 else ANY)
    return f'"{value}"' if draw.random() < 0.15 else value


@dataclass(frozen=True)
class Csv(BothWays):
    separator: str = ","

    @property
    def options(self) -> dict[str, str]:
        return {**super().options, "header": "False", "sep": self.separator}

    def by_arrow(self) -> ReadByArrow | None:
        return ReadCsv.of(self.rows, self.separator, None)

    def rows_of(self, mixed: DataFrame) -> DataFrame:
        return rows_of(mixed, self.rows, self.options)

    def spark_reader(self, java_reader: Any) -> Callable[[Any], Any]:
        return java_reader.csv  # type: ignore[no-any-return]

    def _theirs(self, lines: Sequence[str]) -> list[str]:
        """Of a file's lines Spark leaves out those that are blank to Java, of others only those that are of spaces."""
        return super()._theirs([line for line in lines if line.strip(BLANK)])


def case(types: list[str], separator: str, more: str = "") -> Case:
    columns = ", ".join(f"`odd. {at}` {kind}" for at, kind in enumerate(types)) + more
    return partial(Csv, columns=columns, separator=separator), partial(a_line, types, separator)


if __name__ == "__main__":
    plain = [case(types, ",") for types in TABLES]
    with_corrupt = [case(types, ",", ", corrupt string") for types in TABLES]
    main([*plain, *with_corrupt, *(case(TABLES[-1], separator) for separator in " \t;|^-1a")])
