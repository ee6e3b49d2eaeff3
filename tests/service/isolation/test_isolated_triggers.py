"""A trigger in a process of its own behaves like any other: it is exactly-once, checked, rewound and logged."""

from __future__ import annotations

import json
import os
import random
import signal
from collections.abc import Iterator
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Any

import anyio
import psycopg
import pytest
from sqlalchemy import select

from store.database import Database
from store.database.schema import asset_event, watcher_position
from store.errors import Conflict
from tests.arrivals import arrive
from tests.effort import PATIENCE, SEED, effort
from tests.servers import PostgresDatabase
from tests.service.isolation.hosting import PLUGINS, configured, counted, gone, hosting
from triggers.base import StoredPosition, TriggerBatch, TriggerContext
from triggers.cleaning import Cleans
from triggers.errors import ConfigurationError
from triggers.explanations import Explains
from triggers.hosting import Retells, Surveys
from triggers.inventories import Lists
from watcher.features.isolation.child_handle import ChildSettings
from watcher.features.isolation.children import Children
from watcher.features.isolation.fork_server import ForkServer
from watcher.features.isolation.trigger import OwnProcesses
from watcher.host import logs
from watcher.triggerer.clients import ForeignTrigger

pytestmark = pytest.mark.service


def counter(**keys: Any) -> dict[str, Any]:
    return {"trigger": "hostile.Counter", "interval": "5ms", **keys}


async def test_each_number_is_emitted_once_however_often_the_process_is_killed(
    database: Database, server: ForkServer, tmp_path: Path
) -> None:
    """The process gets SIGKILL at random moments: before, during and after the commit of a batch."""
    draw = random.Random(SEED)
    names = [f"w{number}" for number in range(3)]
    configuration = configured(tmp_path, {name: counter() for name in names}, server)
    async with hosting(database, configuration, server) as host:
        for _ in range(effort(8, 200)):
            name = draw.choice(names)
            await host.counted(name, len(await counted(database, name)) + 1)
            await anyio.sleep(draw.uniform(0, 0.1))
            if (process := host.process_of(name)) is not None:
                with suppress(ProcessLookupError):  # already killed; the host has not noticed yet
                    os.kill(process, signal.SIGKILL)
        for name in names:
            await host.counted(name, len(await counted(database, name)) + 1)
    for name in names:
        numbers = await counted(database, name)
        assert numbers == [*range(1, len(numbers) + 1)], f"seed {SEED}"


async def test_the_next_process_of_a_watcher_starts_after_the_previous_one_ended(
    database: Database, server: ForkServer, tmp_path: Path
) -> None:
    """The successor of a trigger that ignores its cancellation begins when the trigger's process is gone."""
    good = tmp_path / "good"
    good.touch()
    watchers = {"stubborn": counter(behaviour="swallow_cancellation", until=str(good))}
    async with hosting(database, configured(tmp_path, watchers, server), server, grace=0.5) as host:
        await host.counted("stubborn", 2)
        first = host.process_of("stubborn")
        assert first is not None
        good.unlink()
        await host.control.rewind("stubborn", "1", "maria")  # cancels the running attempt
        with anyio.fail_after(PATIENCE):
            while host.process_of("stubborn") in {first, None}:
                await anyio.sleep(0.01)
        await gone({first})


async def test_people_preview_and_rewind(database: Database, server: ForkServer, tmp_path: Path) -> None:
    configuration = configured(tmp_path, {"w": counter(last=5)}, server)
    async with hosting(database, configuration, server) as host:
        await host.counted("w", 5)
        assert (await host.control.dry_run("w")).items == 0
        preview = await host.control.preview("w", "2")
        assert [event["number"] for event in preview.shown] == [3]
        with pytest.raises(ConfigurationError, match="there is no number 'yesterday'; give one"):
            await host.control.rewind("w", "yesterday", "maria")
        await host.control.rewind("w", "2", "maria")
        await host.counted("w", 8)
    assert await counted(database, "w") == [1, 2, 3, 4, 5, 3, 4, 5]


async def test_a_position_stays_valid_when_isolation_changes(
    database: Database, server: ForkServer, tmp_path: Path
) -> None:
    """`isolation` is not part of the identity that a position belongs to."""
    for number, isolation in enumerate(("process", "none", "process"), start=1):
        watchers = {"w": counter(last=3 * number, isolation=isolation)}
        async with hosting(database, configured(tmp_path, watchers, server), server) as host:
            await host.counted("w", 3 * number)
    assert await counted(database, "w") == [*range(1, 10)]


async def test_a_position_of_many_rows_travels_in_parts(database: Database, server: ForkServer, tmp_path: Path) -> None:
    keys = {"trigger": "hostile.Hoarder", "interval": "5ms", "last": 35_000}
    for _ in range(2):  # the second process loads what the first one stored
        async with hosting(database, configured(tmp_path, {"w": keys}, server), server) as host:
            with anyio.fail_after(PATIENCE):
                while (await host.watcher("w")).state != "running":
                    await anyio.sleep(0.02)
    async with database.reading() as connection:
        state = await connection.scalar(select(watcher_position.c.state))
    assert json.loads(state or "") == {"rows": 35_000}


async def test_a_built_in_trigger_may_run_in_a_process_of_its_own(
    database: Database, server: ForkServer, tmp_path: Path
) -> None:
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    (inbox / "a.csv").write_text("1")
    keys = {"trigger": "file.new_files", "path": str(inbox), "start": "all", "min_age": "0s", "interval": "10ms"}
    configuration = configured(tmp_path, {"w": {**keys, "isolation": "process"}}, server)
    async with hosting(database, configuration, server) as host:
        await host.counted("w", 1)
        assert host.process_of("w") is not None
        await host.control.rewind("w", "start", "maria")
        await host.counted("w", 2)
        assert (
            await host.control.undo("w", "maria")
        ).events == 1  # the trigger itself knows that it had emitted this event before
        await host.control.rewind("w", "start", "maria")
        await host.counted("w", 3)
        arrive(inbox / "b.csv", "2")
        await host.counted("w", 4)
        with pytest.raises(
            Conflict, match=r"not all of them were emitted before it, and an undo would emit those again"
        ):
            await host.control.undo("w", "maria")


async def test_a_trigger_in_a_process_of_its_own_reads_the_manifests_that_jobs_wait_for(
    database: Database, server: ForkServer, tmp_path: Path
) -> None:
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    (inbox / "all.list").write_text("a.csv")
    keys = {"trigger": "file.new_files", "path": str(inbox), "start": "all", "min_age": "0s", "interval": "10ms"}
    batch = {"mode": "per_partition", "complete": {"manifest": "*.list"}}
    job = {"schedule": "w", "batch": batch, "spark": {"application": "load.py"}}
    watchers = {"w": {**keys, "last": ["*.list"], "isolation": "process"}}
    async with hosting(database, configured(tmp_path, watchers, server, jobs={"load": job}), server) as host:
        await host.counted("w", 1)
    async with database.reading() as connection:
        [extra] = (await connection.scalars(select(asset_event.c.extra))).all()
    assert json.loads(extra)["manifests"] == {f"{inbox}/all.list": ["a.csv"]}


async def test_what_a_trigger_prints_and_logs_is_in_its_watchers_log_and_limited(
    database: Database, server: ForkServer, tmp_path: Path
) -> None:
    watchers = {
        "talker": counter(trigger="hostile.Logger", last=3),
        "flood": counter(behaviour="print"),
    }
    configuration = configured(tmp_path, watchers, server)
    with logs.configure(tmp_path / "logs", level="info", json=True, owner="me", max_file_mb=64):
        async with hosting(database, configuration, server) as host:
            await host.counted("talker", 3)
            assert (await host.watcher("talker")).error is None
            with anyio.fail_after(PATIENCE):
                while not any(record["event"] == "watcher.lines_dropped" for record in records(tmp_path, "flood")):
                    await anyio.sleep(0.1)
    of_talker = records(tmp_path, "talker")
    assert {"printed by the trigger", "printed on stderr"} <= {record.get("line") for record in of_talker}
    slow = next(record for record in of_talker if record["event"] == "board.slow")
    assert (slow["level"], slow["watcher"], slow["asset"], slow["seconds"]) == ("warning", "talker", "talker", 3)
    longest = [record["event"] for record in of_talker if len(record["event"]) > 900]
    assert {event[:15] for event in longest} == {"ä" * 15, "longer than äää"}
    assert max(map(len, longest)) == 1_000


def records(folder: Path, name: str) -> list[Any]:
    files = (folder / "logs" / "watchers" / name).glob("*.log")
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


@pytest.fixture
def own_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ForkServer]:
    """A fork server that starts with this test's environment."""
    monkeypatch.setenv("WATCHER_TOKEN", "hunter22")
    monkeypatch.setenv("BOARD_TOKEN", "hunter23")
    monkeypatch.setenv("HARMLESS", "yes")
    with ForkServer(frozenset({"BOARD_TOKEN"})) as server:
        yield server


async def test_a_trigger_sees_no_secrets_of_the_environment_and_no_descriptors_of_the_host(
    database: Database, own_server: ForkServer, tmp_path: Path
) -> None:
    keys = {"trigger": "hostile.Spy", "interval": "5ms"}
    configuration = configured(tmp_path, {"w": keys}, None)
    async with hosting(database, configuration, own_server) as host:
        with anyio.fail_after(PATIENCE):
            while (await host.watcher("w")).watermark is None:
                await anyio.sleep(0.02)
        seen = json.loads((await host.watcher("w")).watermark or "")
    assert "HARMLESS" in seen["environment"]
    assert not {"WATCHER_TOKEN", "BOARD_TOKEN"} & {*seen["environment"]}
    assert not {"hunter22", "hunter23"} & {*seen["initial_values"]}
    assert seen["descriptors"] <= 8  # the three standard ones, the socket, and the event loop's own
    assert seen["leads_its_session"]


async def test_a_hint_reaches_an_isolated_trigger_between_two_polls(server: ForkServer) -> None:
    trigger = ForeignTrigger(
        path="hostile.Counter",
        options={"interval": "2h"},
        connection=None,
        folder=Path("/"),
    )
    async with anyio.create_task_group() as tasks:
        children = Children(server, tasks, ChildSettings(plugins=PLUGINS))
        context = TriggerContext(watcher="w")
        processes = OwnProcesses(children)
        async with processes.open(trigger, context) as isolated, aclosing(isolated.events(None)) as batches:
            numbers: list[Any] = []
            async for batch in batches:
                numbers += [event.payload["number"] for event in batch.events]
                if numbers == [1, 2]:
                    break
                if batch.position is None:
                    isolated.wake()
        tasks.cancel_scope.cancel()


async def test_an_isolated_trigger_explains_and_surveys_in_its_process_and_lists_and_cleans_nothing(
    server: ForkServer, tmp_path: Path
) -> None:
    for name in ("a.csv", "b.csv", "c.txt"):
        (tmp_path / name).write_text("1")
    options = {"path": str(tmp_path), "match": "*.csv", "min_age": "0s"}
    trigger = ForeignTrigger(
        path="triggers.local_folder.new_files.FileNewFiles", options=options, connection=None, folder=Path("/")
    )
    async with anyio.create_task_group() as tasks:
        processes = OwnProcesses(Children(server, tasks, ChildSettings()))
        async with processes.open(trigger, TriggerContext(watcher="w", dry_run=True)) as isolated:
            await isolated.check()
            explains, surveys = isolated.ability(Explains), isolated.ability(Surveys)
            assert explains is not None
            assert surveys is not None
            finding = await surveys.survey()
            explanation = await explains.explain(str(tmp_path / "c.txt"), None)
            others = [isolated.ability(ability) for ability in (Lists, Cleans, Retells)]
        tasks.cancel_scope.cancel()
    assert finding is not None
    assert finding.message == f"3 files in {tmp_path}, 2 of which match `*.csv`"
    assert explanation.state == "not_matched"
    assert others == [None, None, None]


async def test_an_isolated_trigger_that_lacks_abilities_has_none(server: ForkServer) -> None:
    trigger = ForeignTrigger(path="hostile.Counter", options={"interval": "2h"}, connection=None, folder=Path("/"))
    async with anyio.create_task_group() as tasks:
        processes = OwnProcesses(Children(server, tasks, ChildSettings(plugins=PLUGINS)))
        async with processes.open(trigger, TriggerContext(watcher="w", dry_run=True)) as isolated:
            assert isolated.ability(Explains) is None
            assert isolated.ability(Surveys) is None
            assert not await isolated.reselects({"counter": 2})
            assert isolated.retold(StoredPosition(state={}), TriggerBatch()) is None
        tasks.cancel_scope.cancel()


async def test_an_isolated_watcher_that_is_asked_polls_now(
    database: Database, server: ForkServer, tmp_path: Path
) -> None:
    watchers = {"w": {"trigger": "hostile.Counter", "isolation": "process", "interval": "2h"}}
    async with hosting(database, configured(tmp_path, watchers, server), server) as host:
        for number in (1, 2, 3):
            await host.counted("w", number)
            while (await host.watcher("w")).state != "running":
                await anyio.sleep(0.02)
            host.triggerer.poll_now(frozenset({"w"}))
        await host.counted("w", 4)


async def test_a_trigger_of_a_database_has_at_most_two_sessions(
    database: Database, server: ForkServer, tmp_path: Path, postgres_database: PostgresDatabase
) -> None:
    with psycopg.connect(postgres_database.dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLE items (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY)")
        connection.execute("INSERT INTO items DEFAULT VALUES")
        keys = {"trigger": "postgres.new_rows", "connection": "shop", "table": "items", "isolation": "process"}
        watchers = {"w": {**keys, "start": "all", "interval": "10ms", "listen": True}}
        shop = {"type": "postgres", "dsn": postgres_database.dsn, "pool_size": 10}
        configuration = configured(tmp_path, watchers, server, connections={"shop": shop})
        async with hosting(database, configuration, server) as host:
            with anyio.fail_after(PATIENCE):
                while (await host.watcher("w")).last_event_at is None:
                    await anyio.sleep(0.02)
            sessions = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'asset-watcher'"
            sessions += " AND datname = current_database()"  # those of the metadata database are elsewhere
            assert connection.execute(sessions).fetchone() in [(1,), (2,)]


@pytest.mark.slow
async def test_watchers_survive_the_death_of_their_fork_server(database: Database, tmp_path: Path) -> None:
    with ForkServer() as server:
        configuration = configured(tmp_path, {"w": counter()}, server)
        async with hosting(database, configuration, server) as host:
            for _ in range(2):
                await host.counted("w", len(await counted(database, "w")) + 3)
                process = host.process_of("w")
                (program,) = server._programs
                program.process.kill()
                assert process is not None
                await gone({process})
            await host.counted("w", len(await counted(database, "w")) + 3)
    numbers = await counted(database, "w")
    assert numbers == [*range(1, len(numbers) + 1)]
