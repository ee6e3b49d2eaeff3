"""The shop: customers as rows, orders as files, written the way that makes naive watchers lose them.

Several writers write rows at once: some draw their id early and commit late, some roll back, some use savepoints. Many
files are written in the same second; one in five is a multipart upload that is begun early and completed late.
"""

from __future__ import annotations

import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import anyio
import asyncpg

from triggers.shared.delays import sleep_for

PREFIX: Final = "orders/"
TABLE: Final = """
    CREATE TABLE IF NOT EXISTS customers (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        email text NOT NULL,
        city text NOT NULL,
        created_at timestamptz NOT NULL DEFAULT clock_timestamp()
    )
"""
ROW_WRITERS: Final = 6
FILE_WRITERS: Final = 2
CITIES: Final = ("Kyiv", "Lviv", "Vienna", "Oslo", "Porto")


@dataclass(kw_only=True)
class WrittenItems:
    """What there is to find: exactly the committed rows and the completed files."""

    rows: set[int] = field(default_factory=set)
    files: set[str] = field(default_factory=set)


class Shop:
    """Writes for a while. Randomness comes from a seed, so that two demos are alike."""

    def __init__(self, dsn: str, s3: Any, bucket: str, *, seconds: float) -> None:
        self._dsn, self._s3, self._bucket, self._seconds = dsn, s3, bucket, seconds
        self._closed = False
        self.written = WrittenItems()

    def close(self) -> None:
        """Begin nothing more, even if time is left. `write` ends when what was begun has ended."""
        self._closed = True

    async def prepare(self) -> None:
        async with connected(self._dsn) as connection:
            await connection.execute(TABLE)
        await anyio.to_thread.run_sync(lambda: self._s3.create_bucket(Bucket=self._bucket))

    async def write(self) -> None:
        """Run all writers until their time is over."""
        async with anyio.create_task_group() as tasks:
            for number in range(ROW_WRITERS):
                tasks.start_soon(self._write_rows, random.Random(number))  # noqa: S311  no secret
            for number in range(FILE_WRITERS):
                tasks.start_soon(self._write_files, number, random.Random(100 + number))  # noqa: S311  no secret

    async def _write_rows(self, chance: random.Random) -> None:
        end = anyio.current_time() + self._seconds
        async with connected(self._dsn) as connection:
            while anyio.current_time() < end and not self._closed:
                await self._transaction(connection, chance)
                await sleep_for(chance.uniform(0.02, 0.3))

    async def _transaction(self, connection: Any, chance: random.Random) -> None:
        transaction = connection.transaction()
        await transaction.start()
        ids = await _insert(connection, chance, chance.choice([1, 1, 2, 5]))
        if _happens(chance, 0.3):
            ids += await self._savepoint(connection, chance)
        if _happens(chance, 0.25):  # the id is drawn, the commit comes late: what `id > last` loses
            await sleep_for(chance.uniform(0.3, 2.5))
        if _happens(chance, 0.15):
            await transaction.rollback()
            return
        await transaction.commit()
        self.written.rows.update(ids)

    async def _savepoint(self, connection: Any, chance: random.Random) -> list[int]:
        savepoint = connection.transaction()
        await savepoint.start()
        ids = await _insert(connection, chance, 2)
        if _happens(chance, 0.5):
            await savepoint.rollback()
            return []
        await savepoint.commit()
        return ids

    async def _write_files(self, writer: int, chance: random.Random) -> None:
        end = anyio.current_time() + self._seconds
        number = 0
        async with anyio.create_task_group() as uploads:
            while anyio.current_time() < end and not self._closed:
                for _ in range(chance.choice([1, 1, 3])):
                    number += 1
                    # Later keys sort before and after earlier ones: a listing under way may have passed them.
                    key = f"{PREFIX}{chance.randrange(1000):03}-{writer}-{number}.json"
                    orders = [_order(chance) for _ in range(chance.randint(1, 20))]
                    body = "\n".join(map(json.dumps, orders)).encode()
                    if number % 5 == 0:
                        uploads.start_soon(self._multipart, key, body, chance.uniform(1, 4))
                    else:
                        put = partial(self._s3.put_object, Bucket=self._bucket, Key=key, Body=body)
                        await anyio.to_thread.run_sync(put)
                        self.written.files.add(key)
                await sleep_for(chance.uniform(0.1, 0.6))

    async def _multipart(self, key: str, body: bytes, pause: float) -> None:
        """Upload a file that is begun now and visible later. In S3 its modification time is when it was begun."""
        where = {"Bucket": self._bucket, "Key": key}
        begun = await anyio.to_thread.run_sync(lambda: self._s3.create_multipart_upload(**where))
        upload = {**where, "UploadId": begun["UploadId"]}
        sent = await anyio.to_thread.run_sync(lambda: self._s3.upload_part(Body=body, PartNumber=1, **upload))
        parts = {"Parts": [{"ETag": sent["ETag"], "PartNumber": 1}]}
        await sleep_for(pause)
        await anyio.to_thread.run_sync(lambda: self._s3.complete_multipart_upload(MultipartUpload=parts, **upload))
        self.written.files.add(key)


@asynccontextmanager
async def connected(dsn: str) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(dsn)
    try:
        yield connection
    finally:
        with anyio.CancelScope(shield=True):
            await connection.close()


def _happens(chance: random.Random, probability: float) -> bool:
    return chance.random() < probability


async def _insert(connection: Any, chance: random.Random, rows: int) -> list[int]:
    values = [(f"c{chance.randrange(10**9)}@example.com", chance.choice(CITIES)) for _ in range(rows)]
    inserted = await connection.fetch(
        "INSERT INTO customers (email, city) SELECT * FROM unnest($1::text[], $2::text[]) RETURNING id",
        [email for email, _ in values],
        [city for _, city in values],
    )
    return [row["id"] for row in inserted]


def _order(chance: random.Random) -> dict[str, Any]:
    return {"order": chance.randrange(10**9), "city": chance.choice(CITIES), "amount": round(chance.uniform(1, 500), 2)}
