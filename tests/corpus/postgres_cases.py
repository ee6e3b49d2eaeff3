"""Rows of PostgreSQL: every type with its extremes. What they hold is told by psycopg, in the server's own texts."""

from __future__ import annotations

import random
import re
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any, Final

import psycopg
from psycopg.adapt import Loader

from tests.corpus.canonical import Canonical, day_text, days_of, float_text, moment_text

MOMENTS: Final = (
    """
2024-01-01 10:30:00|2024-01-01 10:30:00.123456|1970-01-01 00:00:00|1969-12-31 23:59:59.999999|0001-01-01 00:00:00
9999-12-31 23:59:59.999999|10000-01-01 00:00:00|1582-10-04 12:00:00|1582-10-10 12:00:00|0044-03-15 12:00:00 BC
4713-01-01 00:00:00 BC|1677-09-21 00:12:43|2262-04-11 23:47:17|1883-11-18 12:00:00|0001-12-31 00:00:00 BC
294247-01-10 04:00:54.775807
""".strip()
    .replace("\n", "|")
    .split("|")
)
DAYS: Final = (
    """
2024-02-29|1970-01-01|1969-12-31|0001-01-01|9999-12-31|10000-01-01|1582-10-04|1582-10-10|0044-03-15 BC|4713-01-01 BC
5874897-12-31|0001-12-31 BC
""".strip()
    .replace("\n", "|")
    .split("|")
)
TEXTS: Final = (
    "",
    "a",
    " a ",
    "ü€",
    "\U0001f600",
    "a\nb",
    "a\r\nb",
    "\t",
    '"',
    "'",
    "\\",
    "\\N",
    "{}",
    "null",
    "NULL",
    "x" * 5000,
    "e\u0301",
    "\x01",
)
WHOLE: Final = {"smallint": 16, "integer": 32, "bigint": 64}
NUMERICS: Final = {
    "numeric(10,2)": ("0", "1.5", "-1.50", "99999999.99", "-99999999.99", "0.01"),
    "numeric(38,0)": ("0", "9" * 38, "-" + "9" * 38),
    "numeric(38,38)": ("0", "0." + "9" * 38, "-0." + "0" * 37 + "1"),
    "numeric(38,10)": ("1.10", "0.0000000001", "9" * 28 + ".9999999999"),
    "numeric(39,0)": ("0", "9" * 39),
    "numeric(5,-2)": ("100", "9999900", "-100"),
    "numeric(2,5)": ("0.00012", "0"),
    "numeric": (
        "0",
        "1.10",
        "-0.0",
        "1e400",
        "1e-400",
        "123456789012345678901234567890.123456789",
        "NaN",
        "Infinity",
        "-Infinity",
    ),
}
FLOATS: Final = "0 -0 1.5 -1.5 0.1 1e-5 NaN Infinity -Infinity".split()
OTHERS: Final[Mapping[str, Sequence[str]]] = {
    "boolean": ("true", "false"),
    "real": (*FLOATS, "3.4028235e38", "1e-45", "16777216", "1.17549435e-38"),
    "double precision": (*FLOATS, "1.7976931348623157e308", "5e-324", "9007199254740993", "0.30000000000000004"),
    "text": TEXTS,
    "varchar(5000)": TEXTS,
    "character(5)": ("ab", "abcde", "", " ab", "ü"),
    "name": ("a", "ü"),
    "bytea": ("", "\\x00", "\\x00ff", "\\x" + "ab" * 3000, "\\x0a0d22"),
    "uuid": ("00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff"),
    "json": ('{"a": 1, "a": 1.10}', "[1e400]", " null ", '"\\u00fc"'),
    "jsonb": ('{"b": 1.10, "a": 12345678901234567890123}', "null", '"x"'),
    "time": ("00:00:00", "23:59:59.999999", "24:00:00", "10:30"),
    "time with time zone": ("10:30:00+02", "24:00:00-15:59"),
    "interval": ("1 year 2 months 3 days 04:05:06.7", "-1 day", "0", "178000000 years"),
    "inet": ("192.168.0.1", "::1", "10.0.0.0/8"),
    "cidr": ("10.0.0.0/8",),
    "macaddr": ("08:00:2b:01:02:03",),
    "bit(3)": ("101",),
    "bit varying": ("", "1" * 70),
    "money": ("1.5", "-92233720368547758.08"),
    "point": ("(1.5,-0)",),
    "int4range": ("[1,5)", "empty", "(,)"),
    "tstzrange": ("[2024-01-01 00:00:00+00,infinity)",),
    "tsvector": ("'a':1 'b':2",),
    "oid": ("0", "4294967295"),
    "smallint[]": ("{}", "{1,NULL,-32768}"),
    "integer[]": ("{}", "{1,2,NULL}", "{2147483647}"),
    "bigint[]": ("{9223372036854775807}", "{NULL}"),
    "double precision[]": ("{NaN,Infinity,-0,0.1}",),
    "real[]": ("{0.1,3.4028235e38}",),
    "boolean[]": ("{t,f,NULL}",),
    "text[]": ("{}", '{"a,b","\\"","\\\\",NULL,"NULL",""}', '{"a\nb",ü}'),
    "date[]": ("{2024-01-01,0001-01-01}",),
    "timestamp with time zone[]": ("{2024-01-01 10:30:00+02,9999-12-31 23:59:59.999999+00}",),
    "numeric(10,2)[]": ("{1.10,NULL}",),
    "uuid[]": ("{00000000-0000-0000-0000-000000000000}",),
}
TYPES: Final[Mapping[str, Sequence[str]]] = {
    **{name: ("0", "1", "-1", str(2 ** (bits - 1) - 1), str(-(2 ** (bits - 1)))) for name, bits in WHOLE.items()},
    **NUMERICS,
    **OTHERS,
    "date": DAYS,
    "timestamp without time zone": MOMENTS,
    "timestamp with time zone": [
        f"{moment.removesuffix(' BC')}+00{' BC' if moment.endswith('BC') else ''}" for moment in MOMENTS
    ],
}
UNREPRESENTABLE: Final[Mapping[str, Sequence[str]]] = {
    "date": ("infinity", "-infinity"),
    "timestamp without time zone": ("infinity", "-infinity", "294276-12-31 23:59:59.999999"),
    "timestamp with time zone": ("infinity", "-infinity", "294276-12-31 23:59:59.999999+00"),
    "numeric(10,2)": ("NaN",),
    "date[]": ("{infinity}", "{2024-01-01,-infinity}"),
    "timestamp without time zone[]": ("{infinity}",),
    "integer[]": ("{{1,2},{3,4}}", "{{1,2}}", "[0:1]={1,2}", "[2:2]={1}"),
    "text[]": ("{{a,b}}",),
}
"""Values that Spark's types cannot hold."""


@dataclass(frozen=True, kw_only=True)
class RowGroup:
    """The rows of one table: `id` 0, 1, … and the column `v` of a type."""

    table: str
    kind: str
    literals: Sequence[str | None]
    representable: bool

    def create(self, connection: psycopg.Connection[Any]) -> None:
        connection.execute(
            f"CREATE TABLE {self.table} (id bigint GENERATED BY DEFAULT AS IDENTITY (MINVALUE 0 START 0) PRIMARY KEY, v {self.kind})"
        )
        insert = f"INSERT INTO {self.table} (v) VALUES (%s::text::{self.kind})"
        with connection.cursor() as cursor, connection.transaction():
            cursor.executemany(insert, [(literal,) for literal in self.literals])

    def texts(self, connection: psycopg.Connection[Any], rows: str | None = None) -> list[Any]:
        """The values as the server writes them: a text, None, or a list of texts where Spark has arrays of the type."""
        is_array = self.representable and self.kind.removesuffix("[]") in SPARK
        value = "v" if is_array or not self.kind.endswith("[]") else "v::text"
        return [value for (value,) in connection.execute(f"SELECT {value} FROM {rows or self.table} ORDER BY id")]


def by_chance(chance: random.Random, count: int) -> Iterator[RowGroup]:
    """Tables of random values, so many rows in all."""
    for number, (kind, literal) in enumerate(BY_CHANCE.items()):
        literals = [literal(chance) for _ in range(count // len(BY_CHANCE))]
        yield RowGroup(table=f"chance_{number}", kind=kind, literals=literals, representable=True)


def _text(chance: random.Random) -> str:
    ranges = [(1, 0x7F), (0x80, 0x7FF), (0x800, 0xD7FF), (0xE000, 0x10FFFF), (0x20, 0x7E)]
    return "".join(chr(chance.randint(*chance.choice(ranges))) for _ in range(chance.randint(0, 12)))


def _double(chance: random.Random) -> str:
    return repr(struct.unpack("<d", chance.randbytes(8))[0])


def _real(chance: random.Random) -> str:
    (value,) = struct.unpack("<f", chance.randbytes(4))
    return repr(value)


def _numeric(chance: random.Random, digits: int, scale: int) -> str:
    return f"{chance.choice(['', '-'])}{chance.randrange(10 ** chance.randint(1, digits))}e-{scale}"


def _day(chance: random.Random) -> str:
    year = chance.choice([chance.randint(1, 9999), chance.randint(-4712, 294_000)])
    date = f"{year if year > 0 else 1 - year:04}-{chance.randint(1, 12):02}-{chance.randint(1, 28):02}"
    return f"{date}{' BC' if year <= 0 else ''}"


def _time(chance: random.Random) -> str:
    date, _, before = _day(chance).partition(" ")
    return f"{date} {chance.randint(0, 23):02}:{chance.randint(0, 59):02}:{chance.randint(0, 59):02}.{chance.randrange(10**6):06} {before}"


def _array(literal: Callable[[random.Random], str], chance: random.Random) -> str:
    quoted = ['"' + re.sub(r'(["\\])', r"\\\1", literal(chance)) + '"' for _ in range(chance.randint(0, 4))]
    return "{" + ",".join(chance.choice([item, item, "NULL"]) for item in quoted) + "}"


BY_CHANCE: Final[Mapping[str, Callable[[random.Random], str]]] = {
    **{
        name: partial(lambda bits, chance: str(chance.randrange(-(2 ** (bits - 1)), 2 ** (bits - 1))), bits)
        for name, bits in WHOLE.items()
    },
    "double precision": _double,
    "real": _real,
    "numeric(10,2)": partial(_numeric, digits=10, scale=2),
    "numeric(38,10)": partial(_numeric, digits=38, scale=10),
    "numeric": lambda chance: _numeric(chance, 60, chance.randint(0, 60)),
    "text": _text,
    "bytea": lambda chance: "\\x" + chance.randbytes(chance.randint(0, 20)).hex(),
    "date": _day,
    "timestamp without time zone": _time,
    "timestamp with time zone": lambda chance: f"{_time(chance)} {chance.choice(['UTC', 'Europe/Berlin', '+05:30'])}",
    "text[]": partial(_array, _text),
    "double precision[]": partial(_array, _double),
    "timestamp with time zone[]": partial(_array, lambda chance: f"{_time(chance)} UTC"),
}


def join(connection: psycopg.Connection[Any], tables: Sequence[RowGroup]) -> None:
    """Make the table `wide`, with a column of each of the tables, of which it is named: one read tries them all."""
    columns = ", ".join(f"{group.table}.v AS {group.table}" for group in tables)
    joins = " ".join(f"LEFT JOIN {group.table} USING (id)" for group in tables)
    connection.execute(
        f"CREATE TABLE wide AS SELECT id, {columns} FROM generate_series(0::bigint, {LONGEST}) AS number (id) {joins}"
    )
    connection.execute("ALTER TABLE wide ADD PRIMARY KEY (id)")


LONGEST: Final = 40


class _Text(Loader):
    def load(self, data: Any) -> str:
        return bytes(data).decode()


def connected(dsn: str) -> psycopg.Connection[Any]:
    """A session that loads every value as PostgreSQL's text."""
    connection = psycopg.connect(dsn, autocommit=True)
    connection.execute(
        "SET TimeZone = 'UTC'; SET DateStyle = 'ISO'; SET extra_float_digits = 1; SET bytea_output = 'hex'"
    )
    for info in connection.adapters.types:
        connection.adapters.register_loader(info.oid, _Text)
    return connection


def groups() -> Iterator[RowGroup]:
    for number, (kind, literals) in enumerate(TYPES.items()):
        yield RowGroup(table=f"right_{number}", kind=kind, literals=[*literals, None], representable=True)
    for number, (kind, literals) in enumerate(UNREPRESENTABLE.items()):
        yield RowGroup(table=f"odd_{number}", kind=kind, literals=literals, representable=False)


def canonical_of(text: Any, kind: str) -> Canonical:
    """The canonical form of a value in PostgreSQL's text, in the type of Spark that docs/writing-a-job.md names for its type."""
    if text is None:
        return None
    if isinstance(text, list):
        return [canonical_of(item, kind.removesuffix("[]")) for item in text]
    return SPARK.get(kind, str)(text)


_ISO = re.compile(r"(\d+)-(\d\d)-(\d\d)(?: (\d\d):(\d\d):(\d\d(?:\.\d+)?))?([+-]\d\d(?::\d\d)*)?( BC)?")


def _date(text: str) -> str:
    year, month, day, *_, before = _ISO.fullmatch(text).groups()
    return day_text(days_of(1 - int(year) if before else int(year), int(month), int(day)))


def _moment(text: str) -> str:
    year, month, day, hour, minute, second, zone, before = _ISO.fullmatch(text).groups()
    if zone not in {None, "+00"}:
        raise ValueError(text)
    seconds = (
        days_of(1 - int(year) if before else int(year), int(month), int(day)) * 86_400
        + int(hour) * 3600
        + int(minute) * 60
    )
    return moment_text((seconds + Fraction(second)) * 1_000_000, utc=zone is not None)


def _float(text: str) -> str:
    return float_text(float(text))


def _single(text: str) -> str:
    return float_text(struct.unpack("<f", struct.pack("<f", float(text)))[0])


SPARK: Final = {
    **dict.fromkeys(("smallint", "integer", "bigint", "text", "varchar(5000)"), str),
    "real": _single,
    "double precision": _float,
    "boolean": {"t": "true", "f": "false"}.__getitem__,
    "date": _date,
    "timestamp with time zone": _moment,
    "timestamp without time zone": _moment,
    "bytea": lambda text: "0x" + text.removeprefix("\\x"),
}
"""Types that have a counterpart in Spark. All others stay PostgreSQL's text."""
