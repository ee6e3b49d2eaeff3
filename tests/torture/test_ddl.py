"""A table is altered all the time: each row is emitted once, or the watcher says why not and its remedy repairs it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import timedelta
from random import Random
from typing import Any

import asyncpg
import pytest

from tests.databases import on_both_versions
from tests.effort import SEED, effort
from tests.service.postgres.tiny_host import TinyHost, options
from tests.torture.ddl_world import SCHEMA, World
from tests.torture.results import Result
from triggers.errors import ConfigurationError, SourceBusy, SourceChanged, TriggerError
from triggers.postgres.connection import PostgresConnection
from triggers.postgres.new_rows import NewRows

log = logging.getLogger(__name__)
pytestmark = [pytest.mark.service, pytest.mark.slow]

LOOKS = effort(60, 5_000)


class Fuzzer:
    """Alternates moves, a poll and a judgement. `host` is the watcher, `world` the table with its model."""

    def __init__(self, host: TinyHost, world: World) -> None:
        self.host, self.world, self.model = host, world, world.model
        self.seen = 0
        self.said: dict[str, int] = {}

    async def look(self, moves: list[str]) -> None:
        """Poll, and follow the remedies of errors, until the watcher raises no more of them."""
        await self.world.follow()
        await self.world.take_lock()
        for _ in range(8):
            try:
                await self.poll()
            except (SourceBusy, SourceChanged, ConfigurationError) as error:
                log.debug("%s: %s", moves, error)
                await self.answer(error, moves)
            else:
                break
        else:
            raise AssertionError(f"the watcher does not go on after {moves}")
        await self.world.unlock()
        self.tell()
        await self.world.follow()
        await self.judge(moves)

    async def poll(self) -> None:
        """Poll once as usual, and once with the check of the catalogue that is only made now and then."""
        while not await self.host.poll():
            pass
        assert self.host.trigger is not None
        self.host.trigger.check_again_every = timedelta(0)
        while not await self.host.poll():
            pass
        self.host.trigger.check_again_every = NewRows.check_again_every

    async def answer(self, error: TriggerError, moves: list[str]) -> None:
        """Do what the error's sentence asks for. The sentence must name what was done, and nothing else."""
        words = str(error)
        if isinstance(error, SourceBusy):
            self.count("waiting")
            assert self.world.locked
            assert "locks public.t " in words, moves
            await self.world.unlock()
        elif isinstance(error, SourceChanged):
            self.count("blocked")
            if not (self.model.may_decide == {"table", "sequence"} and "was restarted and" in words):
                assert self.model.decides, (moves, words)
                assert self.model.decides in words, moves
            await self.start_over()
        else:
            self.count("refused")
            assert any(each.words in words for each in self.model.broken.values()), (moves, words)
            await self.world.mend()

    def tell(self) -> None:
        events: list[Any] = self.host.committed.events[self.seen :]
        self.seen = len(self.host.committed.events)
        self.model.told.update(row["version"] for event in events for row in event.payload["rows"])

    async def start_over(self) -> None:
        self.tell()
        await self.world.mend()
        await self.host.rewind("start")
        self.model.begin_anew(await self.world.versions())

    async def judge(self, moves: list[str]) -> None:
        if self.model.brought:
            assert self.host.trigger is not None
            findings = [each for each in self.host.trigger.findings if each.check == "partition"]
            if any(self.model.brought in each.message for each in findings):
                self.count("partition")
                await self.start_over()
                await self.look([*moves, "rewind"])
                return
            self.model.brought = ""  # no row was below the position
        assert self.model.decides == "" or self.world.mode == "updated_at", (moves, self.model.decides)
        self.model.decides = ""  # rows that were not read yet may be rewritten
        assert self.model.judge() == "", moves

    def count(self, what: str) -> None:
        self.said[what] = self.said.get(what, 0) + 1


@on_both_versions
@pytest.mark.parametrize("mode", ["id", "updated_at"])
async def test_no_row_is_lost_or_repeated_silently_while_a_table_is_altered(
    shop: str, mode: str, record_result: Callable[[Result], None]
) -> None:
    random, role = Random(f"{SEED} {mode}"), f"reader_{SEED}_{mode}"
    admin, writer = await asyncpg.connect(shop), await asyncpg.connect(shop)
    await admin.execute(f"{SCHEMA} SET lock_timeout = '100ms'; CREATE ROLE {role} LOGIN")
    await admin.execute(f"GRANT SELECT ON t, t_id_seq TO {role}")
    dsn = shop.replace("postgres@", f"{role}@")
    watched = options(table="public.t", mode=mode, columns=["version"], start="all", lock_timeout="50ms")
    done: list[str] = []
    async with PostgresConnection.model_validate({"dsn": dsn}).open() as client:
        host = TinyHost(client, watched)
        world = World(random, mode, role, admin, writer)
        fuzzer = Fuzzer(host, world)
        try:
            await fuzzer.look(["start"])
            for _ in range(LOOKS):
                moves = [await world.move() for _ in range(random.randint(1, 4))]
                done += moves
                await fuzzer.look(moves)
                world.drawn = 0
                await world.keep_apart()
                world.position = int((host.committed.watermark or {}).get("up_to") or 0) if mode == "id" else 1
                if random.random() < 0.1:
                    await host.start()
        finally:
            log.warning("seed %s, mode %s: %s of %s moves, %s", SEED, mode, LOOKS, len(done), fuzzer.said)
            await host.stop()
            await writer.execute("ROLLBACK")
            await writer.close()
            await admin.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")
            version = admin.get_server_version().major
            await admin.close()
            events, rows = len(host.committed.events), sum(event.count for event in host.committed.events)
            fault = f"DDL, {mode}, PostgreSQL {version}"
            record_result(Result(fault=fault, database="-", seed=SEED, times=len(done), rows=rows, events=events))
