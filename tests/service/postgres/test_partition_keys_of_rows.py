"""The partition key of a row is in its columns: an event names exactly the rows of its key."""

from __future__ import annotations

import json
from collections import defaultdict
from random import Random
from typing import Any

import asyncpg
import pytest
from pydantic import ValidationError

from tests.effort import SEED
from tests.servers import PostgresDatabase
from tests.service.postgres.conftest import Connect
from tests.service.postgres.tiny_host import TinyHost, hosted, ids_of, options

pytestmark = pytest.mark.service

SALES = """
CREATE TABLE sales (
    id bigserial PRIMARY KEY, low date, region text, at timestamptz, amount numeric, gone boolean NOT NULL DEFAULT false,
    updated_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX ON sales (updated_at)
"""
PARTITION = {"day": "low", "region": "region"}
REGIONS = ("eu", "us", r"a|b\c", "", " ", None, "x" * 250)
MODES = ("id", "updated_at")


@pytest.fixture
async def sales(connect: Connect) -> asyncpg.Connection:
    connection = await connect()
    await connection.execute(SALES)
    return connection


def keys_of(host: TinyHost) -> dict[str | None, list[int]]:
    """The ids that events name, by the events' partition keys."""
    named: dict[str | None, list[int]] = defaultdict(list)
    for event in host.committed.events:
        named[event.partition_key] += ids_of([event])
    return {key: sorted(ids) for key, ids in named.items()}


def expected_key(day: str | None, region: str | None) -> str | None:
    """What the contract says, written once more."""
    if day is None and (region is None or not region.strip()):
        return None
    text = "" if region is None or not region.strip() else region.replace("\\", "\\\\").replace("|", "\\|")
    key = f"{day or ''}|{text}"
    return key if len(key) <= 250 else None


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("more", [{}, {"columns": ["id", "amount"]}, {"where": "amount < 900"}], ids=str)
async def test_events_name_exactly_the_rows_of_their_keys(
    postgres_database: PostgresDatabase, sales: asyncpg.Connection, mode: str, more: dict[str, Any]
) -> None:
    random = Random(f"{SEED}/{mode}/{more}")
    batch = {"max_rows": 100}
    watched = {"table": "public.sales", "mode": mode, "partition": PARTITION, "batch": batch, **more}
    expected: dict[str | None, list[int]] = defaultdict(list)
    async with hosted(postgres_database.dsn, **watched) as host:
        for _ in range(4):
            rows = [
                (random.choice((None, "2026-11-20", "2026-11-21")), random.choice(REGIONS), random.randrange(1000))
                for _ in range(random.randint(1, 300))
            ]
            for day, region, amount in rows:
                insert = "INSERT INTO sales (low, region, amount) VALUES ($1::text::date, $2, $3) RETURNING id"
                number = await sales.fetchval(insert, day, region, amount)
                if "where" not in more or amount < 900:
                    expected[expected_key(day, region)].append(number)
            if random.random() < 0.5:
                await host.crash()
            await host.catch_up()
    assert keys_of(host) == dict(expected)
    assert max(event.count for event in host.committed.events) <= 100
    for event in host.committed.events:
        assert not more.get("columns") or [row["id"] for row in event.payload["rows"]] == ids_of([event])


async def test_an_update_that_moves_a_row_is_an_event_of_its_new_key(
    postgres_database: PostgresDatabase, sales: asyncpg.Connection
) -> None:
    watched = {"mode": "updated_at", "soft_delete": "gone", "partition": {"region": "region"}}
    async with hosted(postgres_database.dsn, table="public.sales", **watched) as host:
        await sales.execute("INSERT INTO sales (region) VALUES ('eu'), ('us')")
        await host.catch_up()
        await sales.execute("UPDATE sales SET region = 'asia', updated_at = now() WHERE id = 1")
        await sales.execute("UPDATE sales SET gone = true, updated_at = now() WHERE id = 2")
        await host.catch_up()
    assert [
        (event.partition_key, event.payload["keys"], event.payload["deleted"]) for event in host.committed.events
    ] == [
        ("eu", [1], []),
        ("us", [2], []),
        ("asia", [1], []),
        ("us", [], [2]),
    ]


@pytest.mark.parametrize(
    ("column", "written", "key"),
    [
        ("low", "date '2026-01-02'", "2026-01-02"),
        ("at", "timestamptz '2026-01-02 03:04:05.6+02'", "2026-01-02 01:04:05.6+00"),
        ("amount", "12.50", "12.50"),
        ("gone", "true", "true"),
        ("region", "repeat('é', 250)", "é" * 250),
        ("region", "repeat('|', 126)", None),
    ],
)
async def test_values_are_as_postgresql_writes_them_in_iso(
    postgres_database: PostgresDatabase, sales: asyncpg.Connection, column: str, written: str, key: str | None
) -> None:
    await sales.execute(f"ALTER DATABASE {postgres_database.name} SET DateStyle = 'German'")
    await sales.execute(f"ALTER DATABASE {postgres_database.name} SET TimeZone = 'Asia/Kolkata'")
    async with hosted(postgres_database.dsn, table="public.sales", partition={"part": column}) as host:
        await sales.execute(f"INSERT INTO sales ({column}) VALUES ({written})")
        await host.catch_up()
        assert host.trigger is not None
        findings = [each.message for each in host.trigger.findings if each.check == "partition"]
    assert [event.partition_key for event in host.committed.events] == [key]
    assert findings == ([] if key else ["1 row has no partition key; the first: 1"])


async def test_a_rejected_row_stands_in_no_event_of_another_key(
    postgres_database: PostgresDatabase, sales: asyncpg.Connection
) -> None:
    watched = {"partition": {"region": "region"}, "where": "1 / length(region) >= 0", "on_bad_row": "report"}
    async with hosted(postgres_database.dsn, table="public.sales", **watched) as host:
        await sales.execute("INSERT INTO sales (region) VALUES ('eu'), ('')")
        await host.catch_up()
    named = [(each.partition_key, each.count, each.payload.get("rejected")) for each in host.committed.events]
    assert named == [("eu", 1, None), (None, 0, [2])]


async def test_a_column_that_is_not_there_is_named_by_check(
    postgres_database: PostgresDatabase, sales: asyncpg.Connection
) -> None:
    assert sales
    with pytest.raises(Exception, match="regoin"):
        async with hosted(postgres_database.dsn, table="public.sales", partition={"region": "regoin"}):
            pass


@pytest.mark.parametrize("partition", ["region", {}, {"day": ""}, {"": "low"}])
def test_a_partition_names_parts_and_columns(partition: Any) -> None:
    with pytest.raises(ValidationError):
        options(partition=partition)


def test_an_event_is_json() -> None:
    assert json.loads(json.dumps(options(partition=PARTITION).model_dump(mode="json")))["partition"] == PARTITION
