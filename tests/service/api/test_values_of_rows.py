"""The API returns a row of PostgreSQL digit for digit: PostgreSQL makes the same row from the answer."""

from __future__ import annotations

import json
from typing import Any

import asyncpg
import pytest

from store.database.asset_events import NewEvent
from store.detection import events
from store.detection.interest import NO_HOOKS, EventOrigin
from store.values import to_json
from tests.servers import PostgresDatabase
from tests.service.api.application import Api
from tests.service.postgres.tiny_host import TinyHost, hosted

pytestmark = pytest.mark.service

EVERY_TYPE = """
SELECT t.oid::regtype::text AS name FROM pg_type t
WHERE t.typnamespace = 'pg_catalog'::regnamespace AND t.typtype IN ('b', 'r', 'm') AND t.typcategory <> 'A'
  AND t.typname NOT LIKE 'pg_%' AND t.oid NOT IN (SELECT conrelid FROM pg_constraint)
"""
EXAMPLES = {
    "smallint": "-32768",
    "integer": "2147483647",
    "bigint": "-9223372036854775808",
    "numeric": "1234567890123456789012345678901234567890.1234567890123456789000",
    "real": "1.17549435e-38",
    "double precision": "1.7976931348623157e+308",
    "money": "$1,234.56",
    "boolean": "t",
    '"char"': "x",
    "name": "a name",
    "text": 'quotes " \\ \n \u2028 and \U0001f600',
    "character": "c",
    "character varying": "\u00e4",
    "bytea": "\\x00ff10",
    "date": "infinity",
    "time without time zone": "23:59:59.999999",
    "time with time zone": "23:59:59.999999+05:30",
    "timestamp without time zone": "2026-11-20 09:00:00.123456",
    "timestamp with time zone": "2026-11-20 09:00:00.123456+00",
    "interval": "1 year 2 mons -3 days +04:05:06.789",
    "uuid": "0b4d7f6e-9a0f-4f3e-8c3a-1d2e3f4a5b6c",
    "json": '{"b": [1, 2.5, null, true], "a": "\\u00e4"}',
    "jsonb": '{"a": [1, 2.5, null, true], "b": "x"}',
    "jsonpath": '$."a"[*]?(@ > 1)',
    "xml": None,
    "point": "(1.5,-2)",
    "line": "{1,-1,0.5}",
    "lseg": "[(0,0),(1,1)]",
    "box": "(1,1),(0,0)",
    "path": "((0,0),(1,1),(2,0))",
    "polygon": "((0,0),(1,1),(2,0))",
    "circle": "<(1,2),3.5>",
    "cidr": "10.0.0.0/8",
    "inet": "2001:db8::1/64",
    "macaddr": "08:00:2b:01:02:03",
    "macaddr8": "08:00:2b:01:02:03:04:05",
    "bit": "1",
    "bit varying": "10110",
    "tsvector": "'a':1 'fat':2",
    "tsquery": "'a' & !'b'",
    "oid": "4294967295",
    "xid": "4294967295",
    "xid8": "18446744073709551615",
    "cid": "1",
    "tid": "(4,2)",
    "txid_snapshot": "10:20:10,14",
    "refcursor": "a cursor",
    "aclitem": "postgres=r/postgres",
    "gtsvector": None,
    "int2vector": None,
    "oidvector": None,
    "regclass": "pg_class",
    "regtype": "integer",
    "regproc": "now",
    "regprocedure": "abs(integer)",
    "regoper": "||/",
    "regoperator": "+(integer,integer)",
    "regrole": "postgres",
    "regnamespace": "pg_catalog",
    "regconfig": "english",
    "regdictionary": "simple",
    "regcollation": '"C"',
    "regdatabase": None,
    "int4range": "[1,9)",
    "int8range": "[1,)",
    "numrange": "[1.10,2.200)",
    "tsrange": '["2026-01-01 00:00:00","2026-01-02 00:00:00")',
    "tstzrange": '["2026-01-01 00:00:00+00",)',
    "daterange": "empty",
    "int4multirange": "{[1,3),[5,7)}",
    "int8multirange": "{}",
    "nummultirange": "{[1.10,2.200)}",
    "tsmultirange": '{["2026-01-01 00:00:00","2026-01-02 00:00:00")}',
    "tstzmultirange": '{["2026-01-01 00:00:00+00",)}',
    "datemultirange": "{[2026-01-01,2026-01-05)}",
}
"""The values by the name of a type. None means that no column has the type, or that our server lacks it."""
OF_OUR_OWN = """
CREATE DOMAIN price AS numeric(30, 10);
CREATE DOMAIN prices AS numeric[];
CREATE DOMAIN cheap AS price CHECK (VALUE < 1e19);
CREATE TYPE mood AS ENUM ('sad', 'happy "so"');
CREATE TYPE part AS (name text, weight numeric, cost price, counts int[], made timestamptz, note jsonb);
CREATE TYPE whole AS (parts part[], best part, costs prices, tariffs price[], size float8);
CREATE DOMAIN sound_part AS part CHECK ((VALUE).weight > 0);
CREATE TYPE price_range AS RANGE (subtype = numeric);
CREATE TABLE ours (
    id bigserial PRIMARY KEY, a price, b prices, c cheap[], d mood, e part, f part[], g whole, h sound_part, i sound_part[],
    j numeric[], k price_range, l price_multirange, m text[], n jsonb[], o numeric
);
"""
PART = "ROW('a', 1.2345678901234567890, 1.10, '{{1,2}}', '2026-01-01', '{{\"a\": 1.5}}')::{}"
VALUES = f"""
INSERT INTO ours SELECT 1, 123456789012345678.1234567890, '{{1.10,NaN,NULL}}', '{{0.10}}', 'happy "so"', {PART.format("part")},
    ARRAY[[{PART.format("part")}], [NULL::part]], ROW(ARRAY[{PART.format("part")}], {PART.format("part")}, '{{1.10}}', '{{2.20}}', 0.1)::whole,
    {PART.format("sound_part")}, ARRAY[{PART.format("sound_part")}], '{{{{1.0,2.00}},{{3.000,4}}}}', '[1.10,2.2)',
    '{{[1.10,2.2)}}', '{{a,NULL,"b c"}}', ARRAY['{{"a": [1]}}'::jsonb, '1'], 'NaN'
"""


async def as_the_api_answers(api: Api, host: TinyHost) -> list[Any]:
    """Return the rows of all committed events from the API."""
    new = [
        NewEvent(asset_id=api.asset_ids["landing"], extra=to_json(dict(event.payload)), trace_id="0" * 32)
        for event in host.committed.events
    ]
    async with api.database.transaction() as connection:
        await events.append(connection, new, origin=EventOrigin.POST, hooks=NO_HOOKS)
    answered = (await api.get("/api/v2/assets/events"))["asset_events"]
    return [row for event in answered for row in event["extra"]["rows"]]


async def columns_of(connection: asyncpg.Connection, table: str) -> list[str]:
    sql = "SELECT attname FROM pg_attribute WHERE attrelid = $1::text::regclass AND attnum > 0 ORDER BY attnum"
    return [row["attname"] for row in await connection.fetch(sql, table)]


async def assert_the_same(connection: asyncpg.Connection, table: str, rows: list[Any]) -> None:
    for row in rows:
        for column in row:
            stored, answered = await connection.fetchrow(
                f'SELECT t."{column}"::text, r."{column}"::text FROM {table} t, json_populate_record(NULL::{table}, $1) r'
                " WHERE t.id = $2",
                json.dumps(row),
                row["id"],
            )
            assert answered == stored, column


async def test_every_type_of_postgresql_and_its_arrays_is_returned_unchanged(
    postgres_database: PostgresDatabase, api: Api
) -> None:
    admin = await asyncpg.connect(postgres_database.dsn)
    names = [row["name"] for row in await admin.fetch(EVERY_TYPE)]
    assert not set(names) - EXAMPLES.keys(), "an example is missing"
    filled = [name for name in names if EXAMPLES[name] is not None]
    columns = ", ".join(f"c{n} {name}, a{n} {name}[]" for n, name in enumerate(filled))
    await admin.execute(f"CREATE TABLE every (id bigserial PRIMARY KEY, {columns})")
    values = ", ".join(
        f"$q${EXAMPLES[name]}$q$::{name}, ARRAY[$q${EXAMPLES[name]}$q$, NULL]::{name}[]" for name in filled
    )
    await admin.execute(f"INSERT INTO every SELECT 1, {values}")
    columns_wanted = await columns_of(admin, "every")
    async with hosted(postgres_database.dsn, table="public.every", start="all", columns=columns_wanted) as host:
        [row] = await as_the_api_answers(api, host)
    await assert_the_same(admin, "every", [row])
    await admin.close()


async def test_domains_composites_ranges_and_their_arrays_keep_every_digit(
    postgres_database: PostgresDatabase, api: Api
) -> None:
    admin = await asyncpg.connect(postgres_database.dsn)
    await admin.execute(OF_OUR_OWN)
    await admin.execute(VALUES)
    async with hosted(
        postgres_database.dsn, table="public.ours", start="all", columns=await columns_of(admin, "ours")
    ) as host:
        [row] = await as_the_api_answers(api, host)
    assert row["a"] == "123456789012345678.1234567890"
    assert row["c"] == ["0.1000000000"]
    assert row["e"]["weight"] == "1.2345678901234567890"
    assert row["e"]["note"] == {"a": 1.5}
    assert row["g"]["size"] == 0.1
    await assert_the_same(admin, "ours", [row])
    await admin.close()


async def test_numbers_in_json_that_no_float_can_hold_are_sent_as_text(
    postgres_database: PostgresDatabase, api: Api
) -> None:
    admin = await asyncpg.connect(postgres_database.dsn)
    await admin.execute("CREATE TABLE orders (id bigserial PRIMARY KEY, data jsonb)")
    exact = (
        '{"a": 12345678901234567890.123456789, "b": [0.1, 1.5e-7, -3, 12345678901234567890], "c": 0.30000000000000004}'
    )
    await admin.execute("INSERT INTO orders (data) VALUES ($1)", exact)
    await admin.close()
    async with hosted(postgres_database.dsn, start="all", columns=["data"]) as host:
        [row] = await as_the_api_answers(api, host)
    numbers = row["data"]
    assert numbers["a"] == "12345678901234567890.123456789"
    assert numbers["b"] == [0.1, 1.5e-7, -3, 12345678901234567890]
    assert numbers["c"] == 0.30000000000000004
