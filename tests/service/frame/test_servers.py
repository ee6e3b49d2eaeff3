"""The servers behave as the other service tests assume."""

from __future__ import annotations

import asyncpg
import psycopg
import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine

from tests.servers import PostgresDatabase, PostgresServer, S3Server

pytestmark = pytest.mark.service


async def test_postgres_is_reached_by_asyncpg_and_by_sqlalchemy(postgres_database: PostgresDatabase) -> None:
    connection = await asyncpg.connect(postgres_database.dsn)
    try:
        assert await connection.fetchval("SELECT current_database()") == postgres_database.name
        assert int(await connection.fetchval("SHOW max_prepared_transactions")) > 0
        assert int(await connection.fetchval("SHOW server_version_num")) >= 140000
    finally:
        await connection.close()
    engine = create_async_engine(postgres_database.sqlalchemy_url)
    async with engine.connect() as session:
        assert await session.scalar(text("SELECT current_database()")) == postgres_database.name
    await engine.dispose()


def test_a_database_is_dropped_with_open_sessions_and_prepared_transactions(postgres_server: PostgresServer) -> None:
    with postgres_server.database() as database:
        with psycopg.connect(database.dsn, autocommit=True) as connection:
            connection.execute("CREATE TABLE t (id int)")
            connection.execute("BEGIN")
            connection.execute("INSERT INTO t VALUES (1)")
            connection.execute("PREPARE TRANSACTION 'left over'")
        forgotten = psycopg.connect(database.dsn)
        forgotten.execute("SELECT count(*) FROM t")
    with pytest.raises(psycopg.OperationalError, match="terminating connection"):
        forgotten.execute("SELECT 1")
    forgotten.close()
    with pytest.raises(psycopg.OperationalError, match="does not exist"):
        psycopg.connect(database.dsn)


def test_a_template_is_prepared_once_and_copied(postgres_server: PostgresServer) -> None:
    prepared: list[str] = []

    def prepare(dsn: str) -> None:
        prepared.append(dsn)
        with psycopg.connect(dsn) as connection:
            connection.execute("CREATE TABLE copied (id int)")

    for _ in range(2):
        template = postgres_server.template("servers_test", prepare)
        with postgres_server.database(template=template) as database, psycopg.connect(database.dsn) as connection:
            connection.execute("INSERT INTO copied VALUES (1)")
            assert connection.execute("SELECT count(*) FROM copied").fetchone() == (1,)
    assert len(prepared) == 1


def test_a_bucket_starts_empty_and_leaves_nothing(s3_server: S3Server, bucket: str) -> None:
    s3_server.client.put_object(Bucket=bucket, Key="left/over.json", Body=b"{}")
    s3_server.client.create_multipart_upload(Bucket=bucket, Key="unfinished")
    assert s3_server.endpoint.startswith("http://127.0.0.1:")
    assert s3_server.client.list_objects_v2(Bucket=bucket)["KeyCount"] == 1
