"""Values of every type: what is read as a DataFrame and what an event holds are what PostgreSQL has.

What PostgreSQL has is asked through psycopg: the text that it sends, and numbers and bytes that it computes itself.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from random import Random
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from psycopg import sql

from asset_job.errors import BadRecordFound, is_final
from asset_job.sources.pgrows import PgRowsReader, Postgres, rows_reader
from asset_job.sources.request import OnUnrepresentable, RowSelection
from tests.effort import SEED, effort
from tests.servers import PostgresDatabase
from tests.service.postgres.tiny_host import hosted

pytestmark = pytest.mark.service

SETTINGS = {
    "TimeZone": "UTC",
    "DateStyle": "ISO",
    "IntervalStyle": "postgres",
    "bytea_output": "hex",
    "extra_float_digits": "1",
}
OTHER_SETTINGS = {
    "TimeZone": "Asia/Kolkata",
    "DateStyle": "German, DMY",
    "IntervalStyle": "iso_8601",
    "bytea_output": "escape",
    "extra_float_digits": "-5",
}
"""As a database may have them for all its sessions."""
OF_OUR_OWN = """
CREATE TYPE mood AS ENUM ('sad', 'happy "so"');
CREATE TYPE part AS (name text, weight numeric, made timestamptz, size float8, code char(4));
CREATE DOMAIN positive AS int CHECK (VALUE > 0);
CREATE DOMAIN moment AS timestamptz(3);
CREATE DOMAIN later AS moment;
CREATE DOMAIN price AS numeric(10, 2);
CREATE DOMAIN names AS text[];
CREATE DOMAIN code AS char(4);
"""
VALUES: Sequence[tuple[str, Sequence[str]]] = [
    ("smallint", ["-32768", "32767"]),
    ("integer", ["-2147483648", "0"]),
    ("bigint", ["-9223372036854775808", "9223372036854775807"]),
    ("real", ["-0", "0.1", "NaN", "-Infinity", "1e-45", "3.4028235e38", "16777217"]),
    ("double precision", ["-0", "0.1", "NaN", "Infinity", "-Infinity", "5e-324", "1.7976931348623157e308", "1e22"]),
    (
        "numeric",
        ["NaN", "Infinity", "-Infinity", "1.10", "-0.0", "1e40", "0.00000000000000000000000000000000000000000001"],
    ),
    ("numeric(10,2)", ["-99999999.99", "0", "1.1"]),
    ("numeric(38,0)", ["99999999999999999999999999999999999999"]),
    ("numeric(38,38)", ["0.99999999999999999999999999999999999999"]),
    ("numeric(50,2)", ["NaN", "999999999999999999999999999999999999999999999999.99"]),
    ("numeric(5,-2)", ["1234500"]),
    ("numeric(2,4)", ["0.0012"]),
    ("boolean", ["true", "false"]),
    ("text", ["", " a ", 'quotes " \\ \n \u2028 and \U0001f600', "\\x00", "NULL"]),
    ("character varying(20)", ["", "ab  "]),
    ("character(5)", ["ab", "", "\u00e4"]),
    ("character", ["c"]),
    ("bpchar", ["ab  "]),
    ('"char"', ["x", ""]),
    ("name", ["a name"]),
    ("bytea", ["\\x", "\\x00ff10", "abc"]),
    ("date", ["2026-01-01", "0001-01-01", "0001-12-31 BC", "4713-11-24 BC", "1582-10-10", "5874897-12-31"]),
    ("time", ["24:00:00", "23:59:59.999999"]),
    ("time with time zone", ["23:59:59.999999+05:30", "00:00-15:59"]),
    (
        "timestamp",
        [
            "2026-01-01 09:00:00.123456",
            "1582-10-10",
            "4713-11-24 BC",
            "294247-01-10 04:00:54.775807",
            "0044-03-15 12:00 BC",
        ],
    ),
    ("timestamp(3)", ["2026-01-01 09:00:00.1239"]),
    (
        "timestamptz",
        [
            "2026-01-01 09:00:00.123456+05:30",
            "1500-01-01 00:00 Europe/Berlin",
            "4713-11-24 00:00+00 BC",
            "294247-01-10 04:00:54.775807+00",
        ],
    ),
    ("interval", ["1 year 2 mons -3 days +04:05:06.789", "0", "-1 month"]),
    ("uuid", ["0b4d7f6e-9a0f-4f3e-8c3a-1d2e3f4a5b6c"]),
    ("json", ['{"b": [1, 2.5, null, true],  "a": "\\u00e4", "a": 1}', "-0"]),
    ("jsonb", ['{"a": [1, 2.50, null, true], "b": 12345678901234567890.5}', "null", '"text"']),
    ("money", ["$1,234.56", "-0.01"]),
    ("inet", ["10.0.0.1", "10.0.0.1/8", "2001:db8::1/64"]),
    ("cidr", ["10.0.0.0/8", "10.0.0.1"]),
    ("macaddr", ["08:00:2b:01:02:03"]),
    ("bit(5)", ["10110"]),
    ("bit varying", ["", "10110"]),
    ("tsvector", ["'a':1 'fat':2"]),
    ("oid", ["4294967295"]),
    ("xid8", ["18446744073709551615"]),
    ("point", ["(1.5,-0)"]),
    ("int4range", ["[1,9)", "empty", "(,)"]),
    ("numrange", ["[1.10,2.200)"]),
    ("tstzrange", ['["2026-01-01 00:00:00+02",infinity)']),
    ("datemultirange", ["{[2026-01-01,2026-01-05)}"]),
    ("mood", ["sad", 'happy "so"']),
    ("part", ['(a,1.10,"2026-01-01 00:00:00+02",-0,ab)', "(,,,,)"]),
    ("part[]", ['{"(a,1.10,infinity,NaN,ab)",NULL}']),
    ("positive", ["5"]),
    ("later", ["2026-01-01 09:00:00.1239+05:30"]),
    ("price", ["1.1"]),
    ("names", ["{a,NULL}"]),
    ("code", ["ab"]),
    ("positive[]", ["{1,2}", "[0:0]={1}"]),
    ("smallint[]", ["{}", "{1,NULL}"]),
    ("integer[]", ["{1,2,3}"]),
    ("bigint[]", ["{-9223372036854775808}"]),
    ("real[]", ["{-0,NaN,0.1}"]),
    ("double precision[]", ["{-0,Infinity,0.1}"]),
    ("boolean[]", ["{t,f,NULL}"]),
    ("text[]", ['{a,"",NULL,"b \\"c\\""}', "{}"]),
    ("bytea[]", ['{"\\\\x00ff"}']),
    ("date[]", ["{2026-01-01,0001-12-31 BC}"]),
    ("timestamp[]", ["{2026-01-01 09:00:00.123456}"]),
    ("timestamptz[]", ["{2026-01-01 09:00:00+05:30,NULL}"]),
    ("numeric[]", ["{1.10,NaN,NULL}", "{{1.10},{2}}", "[0:1]={1.10,2}"]),
    ("numeric(5,1)[]", ["{1.1,NaN}"]),
    ("character(3)[]", ["{a,NULL}", "{{a},{b}}"]),
    ("varchar(3)[]", ["{a}", "[2:2]={a}"]),
    ("uuid[]", ["{0b4d7f6e-9a0f-4f3e-8c3a-1d2e3f4a5b6c}"]),
    ("jsonb[]", ['{"{\\"a\\": [1]}"}']),
]
UNREPRESENTABLE: Sequence[tuple[str, Sequence[str]]] = [
    ("date", ["infinity", "-infinity"]),
    ("timestamp", ["infinity", "-infinity", "294247-01-10 04:00:54.775808", "294276-12-31 23:59:59.999999"]),
    ("timestamp(0)", ["infinity", "294247-01-10 04:00:55"]),
    ("timestamptz", ["infinity", "-infinity", "294247-01-10 04:00:54.775808+00", "294276-12-31 23:59:59.999999+00"]),
    ("later", ["infinity"]),
    ("numeric(10,2)", ["NaN"]),
    ("numeric(38,0)", ["NaN"]),
    ("price", ["NaN"]),
    ("date[]", ["{2026-01-01,infinity}", "{NULL,-infinity}", "{{infinity}}"]),
    ("timestamp[]", ["{infinity}", "{294276-12-31 23:59:59.999999,NULL}", "{{2026-01-01}}"]),
    ("timestamptz[]", ["{-infinity}", "[2:2]={2026-01-01 00:00+00}"]),
    ("integer[]", ["{{1,2},{3,4}}", "{{1,2}}", "[0:1]={1,2}", "[-1:-1]={NULL}"]),
    ("text[]", ["{{a},{b}}", "[2:3]={a,NULL}"]),
    ("names", ["{{a}}", "[0:0]={a}"]),
    ("double precision[]", ["{{{NaN}}}"]),
]


# What PostgreSQL has


def connected(database: PostgresDatabase) -> psycopg.Connection[Any]:
    options = " ".join(f"-c {name}={value}" for name, value in SETTINGS.items())
    return psycopg.connect(database.dsn, options=options, autocommit=True, client_encoding="UTF8")


def texts(connection: psycopg.Connection[Any], query: str) -> list[tuple[str | None, ...]]:
    """The values of a query's rows as PostgreSQL sends them in text format."""
    result = connection.pgconn.exec_(query.encode())
    assert result.status == psycopg.pq.ExecStatus.TUPLES_OK, result.error_message.decode()
    values = ((result.get_value(row, column) for column in range(result.nfields)) for row in range(result.ntuples))
    return [tuple(None if value is None else value.decode() for value in row) for row in values]


MICROSECONDS = "(('x' || encode({}, 'hex'))::bit(64)::int8::numeric + 946684800000000)::text"
"""From 1970 on; PostgreSQL sends those from 2000 on, and likewise days."""
COMPUTED: Mapping[pa.DataType, tuple[str, Callable[[Any], str]]] = {
    pa.int16(): ("{}::text", str),
    pa.int32(): ("{}::text", str),
    pa.int64(): ("{}::text", str),
    pa.bool_(): ("{}::text", lambda value: str(value).lower()),
    pa.string(): ("{}::text", str),
    pa.binary(): ("encode({}, 'hex')", bytes.hex),
    pa.float32(): ("encode(float4send({}), 'hex')", lambda value: struct.pack(">f", value).hex()),
    pa.float64(): ("encode(float8send({}), 'hex')", lambda value: struct.pack(">d", value).hex()),
    pa.date32(): ("(('x' || encode(date_send({}), 'hex'))::bit(32)::int4::int8 + 10957)::text", str),
    pa.timestamp("us"): (MICROSECONDS.format("timestamp_send({})"), str),
    pa.timestamp("us", "UTC"): (MICROSECONDS.format("timestamptz_send({})"), str),
}
"""For each type in which values arrive: SQL for a text that PostgreSQL computes, and the same text of the value that arrived."""


def in_postgres(name: str, kind: pa.DataType) -> str:
    """SQL for JSON of the value of a column: the computed text, or a list of these."""
    if pa.types.is_list(kind):
        item = COMPUTED[kind.value_type][0].format("item")
        items = f"SELECT json_agg({item} ORDER BY place) FROM unnest({name}) WITH ORDINALITY AS u(item, place)"
        return f"CASE WHEN cardinality({name}) = 0 THEN '[]' ELSE ({items}) END"
    return f"to_json({COMPUTED[kind][0].format(name)})"


def arrived(values: pa.Array) -> list[Any]:
    """The values that arrived, as `in_postgres` writes them."""
    if pa.types.is_list(values.type):
        return [None if value is None else arrived(value) for value in (each.values for each in values)]
    number = {pa.date32(): pa.int32()}.get(
        values.type, pa.int64() if pa.types.is_timestamp(values.type) else values.type
    )
    text = COMPUTED[values.type][1]
    return [None if value is None else text(value) for value in values.cast(number).to_pylist()]


# What is read


def table_of(connection: psycopg.Connection[Any], cases: Sequence[tuple[str, Sequence[str]]]) -> int:
    """Make the table `many`, with a column for each type; the n-th row has each type's n-th value. Return the number of rows."""
    connection.execute(OF_OUR_OWN)
    columns = ", ".join(f"c{number} {kind}" for number, (kind, _) in enumerate(cases))
    connection.execute(f"CREATE TABLE many (id bigserial PRIMARY KEY, {columns})")
    count = max(len(literals) for _, literals in cases) + 1
    for row in range(count):
        values = [literals[row] if row < len(literals) else None for _, literals in cases]
        places = ", ".join(f"%s::{kind}" for kind, _ in cases)
        connection.execute(f"INSERT INTO many VALUES (DEFAULT, {places})", values)
    return count


def reader_of(
    database: PostgresDatabase, mode: OnUnrepresentable = "fail", ids: tuple[int, int] = (0, 249_999)
) -> PgRowsReader:
    rows = RowSelection(table="public.many", column="id", ranges=(ids,))
    return rows_reader(Postgres(uri=database.dsn), rows, mode=mode, tasks=1, counts_nulls=True)


def read(reader: PgRowsReader) -> pa.Table:
    batches = [batch for partition in reader.partitions() for batch in reader.read(partition)]
    table = pa.Table.from_batches(batches, reader.schema).combine_chunks()
    table.validate(full=True)
    return table


def column_of(table: pa.Table, number: int) -> pa.Array:
    return table.column(number).combine_chunks()


@pytest.fixture
def database(postgres_database: PostgresDatabase) -> PostgresDatabase:
    """A database whose settings change the texts of values."""
    with psycopg.connect(postgres_database.dsn, autocommit=True) as connection:
        for name, value in OTHER_SETTINGS.items():
            connection.execute(
                sql.SQL("ALTER DATABASE {} SET {} = {}").format(
                    sql.Identifier(postgres_database.name), sql.Identifier(name), sql.Literal(value)
                )
            )
    return postgres_database


async def test_dataframe_and_event_hold_what_is_there(database: PostgresDatabase) -> None:
    with connected(database) as connection:
        count = table_of(connection, VALUES)
        kinds = [kind for kind, _ in VALUES]
        assert_read(connection, read(reader_of(database)), kinds, [True] * count)
        await assert_events(connection, database, kinds)


def assert_read(
    connection: psycopg.Connection[Any], frame: pa.Table, kinds: Sequence[str], whole: Sequence[bool]
) -> None:
    """Check that `frame` has the rows of `many` that are `whole`, and nulls in place of the others."""
    assert len(frame) == len(whole)
    for number, kind in enumerate(kinds, 1):
        name, column = f"c{number - 1}", column_of(frame, number)
        if column.type == pa.string():
            there, here = (
                [text for (text,) in texts(connection, f"SELECT {name} FROM many ORDER BY id")],
                column.to_pylist(),
            )
        else:
            computed = texts(connection, f"SELECT {in_postgres(name, column.type)} FROM many ORDER BY id")
            there, here = [value and json.loads(value) for (value,) in computed], arrived(column)
        assert here == [value if is_whole else None for value, is_whole in zip(there, whole, strict=True)], kind


async def assert_events(connection: psycopg.Connection[Any], database: PostgresDatabase, kinds: Sequence[str]) -> None:
    """Check that PostgreSQL reads the rows of `many` from the events, and that what events have as text is its own."""
    names = [f"c{number}" for number in range(len(kinds))]
    async with hosted(database.dsn, table="public.many", start="all", columns=["id", *names]) as host:
        rows: list[Any] = [
            row for event in host.committed.events for row in json.loads(json.dumps(event.payload["rows"]))
        ]
    written = texts(connection, "SELECT * FROM many ORDER BY id")
    assert [row["id"] for row in rows] == [*range(1, len(written) + 1)]
    for first in range(0, len(rows), 1000):
        part = sql.Literal(json.dumps(rows[first : first + 1000])).as_string()
        again = texts(connection, f"SELECT * FROM json_populate_recordset(NULL::many, {part})")
        for row, of_event, of_table in zip(rows[first:], again, written[first:], strict=False):
            for kind, name, value, text in zip(kinds, names, of_event[1:], of_table[1:], strict=True):
                if kind not in {"json", "jsonb", "jsonb[]"}:  # their numbers may become texts
                    assert value == text, kind
                    if isinstance(row[name], str) and not kind.startswith(("timestamp", "later", "date[]")):
                        assert row[name] == text, kind


def test_what_spark_cannot_hold_is_refused_by_name_or_becomes_what_is_asked_for(database: PostgresDatabase) -> None:
    with connected(database) as connection:
        connection.execute(OF_OUR_OWN)
        for kind, literals in UNREPRESENTABLE:
            connection.execute("DROP TABLE IF EXISTS many")
            connection.execute(f"CREATE TABLE many (id serial, at text, v {kind}, PRIMARY KEY (at, id))")
            for literal in [*literals, None]:
                connection.execute("INSERT INTO many (at, v) VALUES ('it''s', %s)", [literal], prepare=False)
            written = [text for (text,) in texts(connection, "SELECT v FROM many ORDER BY id")]
            numbers = [*range(1, len(literals) + 2)]

            *values, bad = (column.to_pylist() for column in read(reader_of(database, "bad")).columns)
            assert values == [[*[None] * len(literals), value] for value in (numbers[-1], "it's", None)]
            assert bad.pop() is None
            for number, text, record in zip(numbers, written, bad, strict=False):
                at = f"public.many at=it's, id={number}"
                reason = f"the column v holds {text}, which Spark's type {spark_type(kind)} cannot hold"
                again = "SELECT r.* FROM json_populate_record(NULL::many, {}) r"
                row = texts(connection, sql.SQL(again).format(record.pop("_record")).as_string())
                if not str(text).startswith("["):
                    assert row == [(str(number), "it's", text)]
                assert record == {"_file": None, "_at": at, "_reason": reason, "_count": 1}
                with pytest.raises(BadRecordFound) as refused:
                    read(reader_of(database, "fail", (number, numbers[-1])))
                assert str(refused.value).startswith(f"{reason}, in the row {at}: correct the row, or read with ")
                assert is_final(refused.value)

            ids, _, nulls, nulled = (column.to_pylist() for column in read(reader_of(database, "null")).columns)
            assert (ids, nulls, nulled) == (numbers, [None] * len(numbers), [1] * len(literals) + [0])

            ids, _, as_text = (column.to_pylist() for column in read(reader_of(database, "text")).columns)
            assert (ids, as_text) == (numbers, written), kind


def spark_type(kind: str) -> str:
    plain = {"later": "timestamptz", "price": "numeric(10,2)", "names": "text[]", "timestamp(0)": "timestamp"}.get(
        kind, kind
    )
    names = {
        "timestamp": "timestamp_ntz",
        "timestamptz": "timestamp",
        "integer": "int",
        "text": "string",
        "double precision": "double",
    }
    if plain.endswith("[]"):
        return f"array<{names.get(plain[:-2], plain[:-2])}>"
    return names.get(plain, plain.replace("numeric", "decimal"))


def test_a_table_without_such_types_is_read_by_the_plain_statement(database: PostgresDatabase) -> None:
    with connected(database) as connection:
        connection.execute("CREATE TABLE many (id bigint PRIMARY KEY, note text, size float8)")
    assert {query for mode in ("fail", "bad", "text") for query in reader_of(database, mode).queries} == {
        'SELECT "id", "note", "size" FROM "public"."many" WHERE "id" BETWEEN 0 AND 249999'
    }


def test_a_bad_record_has_at_most_a_megabyte_of_its_row(database: PostgresDatabase) -> None:
    with connected(database) as connection:
        connection.execute(
            "CREATE TABLE many (id bigint, note text, day date);"
            "INSERT INTO many VALUES (7, repeat('\u00e4', 3000000), 'infinity')"
        )
    [record] = column_of(read(reader_of(database, "bad")), 3).to_pylist()
    assert len(record["_record"]) == 1 << 20
    assert record["_at"] == "public.many id=7"


def test_names_of_tables_and_columns_do_not_matter(database: PostgresDatabase) -> None:
    names = ["r", "low", "high", "w", "last", "v", "V", "it's", "{value}", 'a "q"', "public", "bad"]
    columns = ", ".join(f"{sql.Identifier(name).as_string()} date" for name in names)
    with connected(database) as connection:
        for table in ("r", 'odd "table {0}'):
            name = sql.Identifier(table).as_string()
            connection.execute(f'CREATE TABLE {name} (id bigint, {columns}, PRIMARY KEY ("it\'s", id))')
            values = ", ".join(f"({id_}, {', '.join(['%s'] * len(names))})" for id_ in (1, 3, 5))
            dates = ["2026-01-01"] * len(names)
            connection.execute(f"INSERT INTO {name} VALUES {values}", [*dates, *dates[:-1], "infinity", *dates])
            rows = RowSelection(table=f"public.{table}", column="id", ranges=((1, 1), (3, 4)))
            several = read(rows_reader(Postgres(uri=database.dsn), rows, mode="bad", tasks=1))
            by_key = RowSelection(table=f"public.{table}", column="at", keys=(("2026-01-01", 1), ("2026-01-01", 3)))
            assert sorted(map(str, several.to_pylist())) == sorted(
                map(str, read(rows_reader(Postgres(uri=database.dsn), by_key, mode="bad", tasks=1)).to_pylist())
            )
            assert column_of(several, 0).to_pylist() == [1, None]
            [_, record] = column_of(several, len(names) + 1).to_pylist()
            assert record["_at"] == f"public.{table} it's=2026-01-01, id=3"
            assert list(json.loads(record["_record"])) == ["id", *names]


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
async def test_texts_of_other_encodings_are_the_same_characters(
    postgres_database: PostgresDatabase, encoding: str
) -> None:
    with in_encoding(postgres_database, encoding) as other:
        with connected(other) as connection:
            connection.execute("CREATE TABLE many (id bigserial PRIMARY KEY, note text, day date)")
            connection.execute("INSERT INTO many (note, day) VALUES ('\u00e4', 'infinity'), ('b', NULL)")
        assert column_of(read(reader_of(other, "null")), 1).to_pylist() == ["\u00e4", "b"]
        [bad, _] = column_of(read(reader_of(other, "bad")), 3).to_pylist()
        assert json.loads(bad["_record"]) == {"id": 1, "note": "\u00e4", "day": "infinity"}
        async with hosted(other.dsn, table="public.many", start="all", columns=["note"]) as host:
            [event] = host.committed.events
        assert event.payload["rows"] == [{"note": "\u00e4"}, {"note": "b"}]

        keys = RowSelection(table="public.many", column="day", keys=("\u00e4",))
        with connected(other) as connection:
            connection.execute("ALTER TABLE many DROP CONSTRAINT many_pkey, ADD PRIMARY KEY (note)")
        reader = rows_reader(Postgres(uri=other.dsn), keys, mode="null", tasks=1)
        assert column_of(read(reader), 1).to_pylist() == ["\u00e4"]


def test_bytes_that_are_no_text_are_bad_records_or_null_or_refused(postgres_database: PostgresDatabase) -> None:
    not_utf8 = ["\\xe4", "\\xc080", "\\xeda080", "\\xf4908080", "\\xf8888080", "\\xc3", "\\x61ff62", "\\x80"]
    utf8 = ["", "a\n\\", "\u00e4\u07ff", "\u0800\ud7ff\ue000\uffff", "\U00010000\U0010ffff\U000fffff"]
    with in_encoding(postgres_database, "SQL_ASCII") as other:
        with connected(other) as connection:
            connection.execute(
                "CREATE TABLE many (id bigserial PRIMARY KEY, note text, notes text[], short varchar(9))"
            )
            for text in utf8:
                connection.execute("INSERT INTO many (note, notes, short) VALUES (%s, ARRAY[%s], 'a')", [text, text])
            for column in ("note", "short"):
                for text in not_utf8:
                    connection.execute(
                        f"INSERT INTO many ({column}) VALUES (convert_from(%s::bytea, 'SQL_ASCII'))", [text]
                    )
            connection.execute("INSERT INTO many (notes) VALUES (ARRAY[convert_from('\\xe4', 'SQL_ASCII'), NULL])")
        of_id, note, notes, _, bad = (column.to_pylist() for column in read(reader_of(other, "bad")).columns)
        assert note == utf8 + [None] * 17
        assert notes == [[text] for text in utf8] + [None] * 17
        assert of_id == [1, 2, 3, 4, 5] + [None] * 17
        assert [record is None for record in bad] == [True] * 5 + [False] * 17
        assert json.loads(bad[5]["_record"].replace("\\", "\\\\")) == {
            "id": 6,
            "note": "\\xe4",
            "notes": None,
            "short": None,
        }
        assert bad[11]["_reason"] == "the column note holds a\\xffb, which Spark's type string cannot hold"
        nulled = read(reader_of(other, "null"))
        assert column_of(nulled, 4).to_pylist() == [0] * 5 + [1] * 17
        for mode in ("fail", "text"):
            with pytest.raises(
                BadRecordFound, match=r"the column note holds \\xe4, .*, in the row public\.many id=6: "
            ):
                read(reader_of(other, mode))


@contextmanager
def in_encoding(database: PostgresDatabase, encoding: str) -> Iterator[PostgresDatabase]:
    """A database beside `database` with another encoding."""
    name = f"{database.name}_{encoding}".lower()
    with psycopg.connect(database.dsn, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0")
        try:
            yield PostgresDatabase(name=name, dsn=database.dsn.replace(database.name, name), sqlalchemy_url="")
        finally:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


# Random values


def moments(random: Random) -> tuple[str, bool]:
    """A moment as text in UTC, and whether Spark has it."""
    if random.random() < 0.1:
        return random.choice([("infinity", False), ("-infinity", False), ("294247-01-10 04:00:54.775807", True)])
    year = random.choice([random.randint(1, 9999), random.randint(-4712, 294_246), random.randint(294_248, 294_276)])
    date = f"{year if year > 0 else 1 - year:04}-{random.randint(1, 12):02}-{random.randint(1, 28):02}"
    time = f"{random.randint(0, 23):02}:{random.randint(0, 59):02}:{random.randint(0, 59):02}.{random.randint(0, 999_999):06}"
    return f"{date} {time}{'' if year > 0 else ' BC'}", year < 294_247


def dates(random: Random) -> tuple[str, bool]:
    if random.random() < 0.1:
        return random.choice(["infinity", "-infinity"]), False
    year = random.choice([random.randint(1, 9999), random.randint(-4711, 0), random.randint(10_000, 5_874_896)])
    return (
        f"{abs(year) + (year <= 0):04}-{random.randint(1, 12):02}-{random.randint(1, 28):02}{' BC' if year <= 0 else ''}",
        True,
    )


def decimals(random: Random) -> tuple[str, bool]:
    text = f"{random.choice(['', '-'])}{random.randrange(10 ** random.randint(0, 20))}.{random.randrange(10**10):010}"
    return ("NaN", False) if random.random() < 0.1 else (text, True)


def floats(random: Random) -> tuple[str, bool]:
    [value] = struct.unpack(">d", random.randbytes(8))
    return random.choice([repr(value), "-0", "NaN", "Infinity", repr(random.random())]).replace("inf", "Infinity"), True


def small_floats(random: Random) -> tuple[str, bool]:
    [value] = struct.unpack(">f", random.randbytes(4))
    return random.choice([repr(value), "-0", "NaN", "-Infinity"]).replace("inf", "Infinity"), True


def letters(random: Random) -> tuple[str, bool]:
    return "".join(random.choice("aB \\\"'{},\t\n\u00e4\u2028\U0001f600") for _ in range(random.randint(0, 9))), True


def numbers(random: Random) -> tuple[str, bool]:
    return str(random.randint(-(2 ** random.randint(0, 63)), 2 ** random.randint(0, 63) - 1)), True


def hexadecimal(random: Random) -> tuple[str, bool]:
    return f"\\x{random.randbytes(random.randint(0, 9)).hex()}", True


SCALARS: Mapping[str, Callable[[Random], tuple[str, bool]]] = {
    "timestamp": moments,
    "timestamptz": moments,
    "date": dates,
    "numeric(30,10)": decimals,
    "numeric": decimals,
    "double precision": floats,
    "real": small_floats,
    "text": letters,
    "character(9)": letters,
    "bigint": numbers,
    "bytea": hexadecimal,
}
NO_DECIMALS = [kind for kind in SCALARS if not kind.startswith(("numeric", "character"))]
"""Types whose arrays become arrays in Spark."""


def random_value(random: Random, kind: str) -> tuple[str | None, bool]:
    """A value of a type as PostgreSQL reads it, and whether Spark can hold it."""
    if random.random() < 0.1:
        return None, True
    if not kind.endswith("[]"):
        text, fits = SCALARS[kind](random)
        return text, fits or kind == "numeric"
    values = [random_value(random, kind.removesuffix("[]")) for _ in range(random.randint(0, 3))]
    items = ",".join("NULL" if text is None else json.dumps(text, ensure_ascii=False) for text, _ in values)
    fits = all(fit for _, fit in values)
    odd = random.random() if values else 1.0
    if odd < 0.1:
        return f"{{{{{items}}}}}", False
    first = random.choice([-1, 0, 2])
    return (f"[{first}:{first + len(values) - 1}]={{{items}}}", False) if odd < 0.2 else (f"{{{items}}}", fits)


async def test_random_values_arrive_unchanged_and_exactly_the_others_are_bad(database: PostgresDatabase) -> None:
    random, count = Random(SEED), effort(300, 20_000)
    kinds = [*SCALARS, *(f"{kind}[]" for kind in NO_DECIMALS)]
    with connected(database) as connection:
        columns = [f"c{number}" for number in range(len(kinds))]
        connection.execute(
            f"CREATE TABLE many (id bigserial PRIMARY KEY, {', '.join(map(' '.join, zip(columns, kinds, strict=True)))})"
        )
        # A row in three has values that Spark cannot hold in some of its columns.
        whole: list[bool] = []
        with connection.cursor() as cursor, cursor.copy(f"COPY many ({', '.join(columns)}) FROM STDIN") as copy:
            for _ in range(count):
                row = [(random_value(random, kind)) for kind in kinds]
                if random.random() < 0.7:
                    row = [(text, fits) if fits else (None, True) for text, fits in row]
                copy.write_row([text for text, _ in row])
                whole.append(all(fits for _, fits in row))
        frame = read(reader_of(database, "bad"))
        bad = column_of(frame, len(kinds) + 1).to_pylist()
        ids = [
            id_ or int(of["_at"].removeprefix("public.many id="))
            for id_, of in zip(column_of(frame, 0).to_pylist(), bad, strict=True)
        ]
        order = sorted(range(len(ids)), key=ids.__getitem__)
        assert [bad[place] is None for place in order] == whole
        frame = frame.take(order)
        assert_read(connection, frame, kinds, whole)
        await assert_events(connection, database, kinds)
