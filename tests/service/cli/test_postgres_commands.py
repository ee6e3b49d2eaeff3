"""Commands about watched PostgreSQL tables work against a server without a daemon."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import anyio
import psycopg
import pytest
from sqlalchemy import update
from typer.testing import CliRunner, Result

from config.reading.loader import load
from store.catalog import catalog_sync
from store.database.schema import watcher_position
from store.detection import positions
from tests.features import DECLARATIONS
from tests.servers import PostgresDatabase
from watcher.cli.app import app
from watcher.cli.database import opened_database
from watcher.configuration.declarations import declared
from watcher.configuration.vocabulary import vocabulary

pytestmark = pytest.mark.service

CONFIGURATION = """
version: 1
connections: {shop: {type: postgres, dsn: "DSN"}}
assets:
  orders:
    uri: postgres://shop/shop/public/orders
    watchers: {orders_rows: {trigger: postgres.new_rows, connection: shop, listen: true}}
  inbox:
    uri: file://INBOX
    watchers: {inbox_files: {trigger: file.new_files, match: "*.csv"}}
"""
SINCE = "2026-11-20T09:00:00Z"
HELD = {"up_to": 7, "gaps": 1, "open_ids": 2, "oldest": {"transaction": "4/17", "pid": 4711, "since": SINCE}}
Watcher = Callable[..., Result]


@pytest.fixture
def shop(postgres_database: PostgresDatabase) -> Iterator[psycopg.Connection]:
    with psycopg.connect(postgres_database.dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLE orders (id bigserial PRIMARY KEY)")
        yield connection


@pytest.fixture
def configuration(tmp_path: Path, postgres_database: PostgresDatabase) -> Path:
    path = tmp_path / "watchers.yaml"
    (tmp_path / "inbox").mkdir()
    path.write_text(CONFIGURATION.replace("DSN", postgres_database.dsn).replace("INBOX", str(tmp_path / "inbox")))
    return path


@pytest.fixture
def watcher(configuration: Path) -> Watcher:
    """A function that runs a command with `-c` and checks its exit code."""

    def run(*words: str, exits: int = 0) -> Result:
        result = CliRunner().invoke(app, [*words, "-c", str(configuration)])
        assert result.exit_code == exits, result.output
        return result

    return run


def test_the_trigger_is_printed_for_its_owner(watcher: Watcher, shop: psycopg.Connection) -> None:
    shop.execute(watcher("pg", "install-notify", "orders_rows").stdout)
    assert notified(shop)


def test_the_trigger_is_installed_on_request(watcher: Watcher, shop: psycopg.Connection) -> None:
    answer = json.loads(watcher("pg", "install-notify", "orders_rows", "--apply", "--json").stdout)
    assert (answer["table"], answer["applied"]) == ("public.orders", True)
    assert "notifies" in watcher("pg", "install-notify", "orders_rows", "--apply").stdout
    assert notified(shop)


def notified(shop: psycopg.Connection) -> bool:
    [oid] = shop.execute("SELECT 'orders'::regclass::oid::text").fetchone() or [""]
    shop.execute("LISTEN asset_watcher")
    shop.execute("INSERT INTO orders DEFAULT VALUES")
    [notification] = shop.notifies(timeout=20, stop_after=1)
    return notification.payload == oid


def test_a_refused_installation_is_explained_in_a_sentence(
    watcher: Watcher, postgres_database: PostgresDatabase
) -> None:
    assert "no watcher" in watcher("pg", "install-notify", "nobody", exits=4).stderr
    assert "watches no PostgreSQL table" in watcher("pg", "install-notify", "inbox_files", exits=2).stderr
    refused = watcher("pg", "install-notify", "orders_rows", "--apply", exits=1).stderr
    assert 'relation "public.orders" does not exist' in refused
    assert "as the owner of the table" in refused
    assert postgres_database.dsn not in refused


def test_sources_are_checked(watcher: Watcher, shop: psycopg.Connection) -> None:
    found = {f["check"]: f for f in json.loads(watcher("check", "--connect", "--json").stdout)}
    assert found["listen"]["level"] == "warning"
    assert "watcher pg install-notify" in found["listen"]["remedy"]
    shop.execute("ALTER SEQUENCE orders_id_seq CACHE 20")
    assert "ALTER SEQUENCE orders_id_seq CACHE 1" in watcher("check", "--connect", exits=3).stdout


def test_the_transaction_that_keeps_a_gap_open_is_described(watcher: Watcher, configuration: Path) -> None:
    anyio.run(stand_at, configuration, json.dumps(HELD))
    sentence = f"1 gap is open (2 ids may still come); the oldest writer waited for is pid 4711, since {SINCE}"
    assert sentence in watcher("watchers", "show", "orders_rows").stdout
    assert sentence in watcher("status", exits=1).stdout


async def stand_at(configuration: Path, watermark: str) -> None:
    loaded = load(configuration, vocabulary(), {})
    async with opened_database(loaded.settings) as database, database.transaction() as session:
        await catalog_sync.apply(session, declared(loaded, DECLARATIONS), database.dialect)
        await positions.claim(session, "orders_rows", "somebody", database.dialect)
        await session.execute(update(watcher_position).values(watermark=watermark))
