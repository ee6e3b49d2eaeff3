"""Random files and rows, each in a state that a model of three rules knows: explained, they are in that state."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import anyio
import asyncpg
import pytest
from sqlalchemy import delete, update

from store.database import Database
from store.database.schema import asset, asset_event, run
from store.fates import Fate
from tests.databases import on_both
from tests.effort import PATIENCE, SEED, effort
from tests.servers import PostgresDatabase, S3Server
from tests.service.api.explained_sources import (
    FILES,
    BucketSource,
    FolderSource,
    RowsById,
    RowsByKey,
    Source,
    s3_connection,
)
from tests.service.api.explained_world import ExplainedWorld, explained_world
from triggers.local_folder.new_files import FileNewFiles
from triggers.postgres.connection import PostgresConnection
from triggers.postgres.new_rows import NewRows

FATES = ("success", "failed", "failed", "running", "queued", "dequeue", "delete", "keep")
"""What becomes of the events of a round: a run in this state, or what people do to the queue or to the run."""
STATES_OF_MODEL = frozenset(
    {
        *("loaded", "failed", "running", "queued", "dropped", "replaced"),
        *("waiting", "before_start", "not_matched", "missing"),
    }
)
ELSEWHERE = frozenset({"superseded", "hidden", "cleaned", "moved", "not_taken", "not_reported", "unknown"})
"""Nothing comes to `hidden` yet; the others have tests of their own."""
WEIGHTS = {"table": "public.weights", "where": "1 / weight > 0", "interval": "1ms"}
STATES = {"success": "loaded", "dequeue": "dropped", "delete": "dropped", "keep": "queued"}


@pytest.fixture(autouse=True)
def _sources_may_be_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """A source that a busy machine keeps waiting is asked for longer; people would get an answer that says so."""
    monkeypatch.setattr("watcher.features.explain.trigger_questions.EXPLAIN_WITHIN", PATIENCE)


@dataclass(kw_only=True)
class Item:
    is_matched: bool
    gone: str = "missing"
    """The state of an item that was deleted and that no event names."""
    version: int | None = 0
    """The content that the source has; None: it was deleted."""
    passed: int | None = None
    """The content that was there before the watcher's start."""
    reported: dict[int, int] = field(default_factory=dict)
    """The round that reported each content."""


@dataclass(kw_only=True)
class Model:
    """What people know: a poll reports each content that is there and matches, once; events share their round's fate."""

    fates: dict[int, tuple[str, str | None]] = field(default_factory=dict)
    """For each round the state of its events, and their run."""
    items: dict[str, dict[int, Item]] = field(default_factory=dict)

    def of(self, source: str) -> Iterator[tuple[int, Item]]:
        yield from self.items.setdefault(source, {}).items()

    def poll(self, source: str, round_: int | None) -> None:
        """`round_` None: the first poll, which reports nothing."""
        for _, item in self.of(source):
            if item.version is not None and item.is_matched and item.version not in item.reported:
                if round_ is None:
                    item.passed = item.version
                elif item.passed != item.version:
                    item.reported[item.version] = round_

    def expected(self, item: Item) -> tuple[str, str | None]:
        """Return the item's state, and its run."""
        last = None if not item.reported else self.fates[item.reported[max(item.reported)]]
        if item.version is None:
            return last or (item.gone, None)
        if item.version in item.reported:
            return self.fates[item.reported[item.version]]
        if not item.is_matched:
            return "not_matched", None
        if item.version == item.passed:
            return "before_start", None
        return ("waiting", None) if last is None else ("replaced", last[1])


async def change(source: Source, items: dict[int, Item], seed: random.Random, numbers: Iterator[int], new: int) -> None:
    """Make new items, and write some of the others again or delete them."""
    there = [number for number, item in items.items() if item.version is not None]
    for number in seed.sample(there, len(there) // 4):
        item = items[number]
        assert item.version is not None
        if seed.random() < 0.5:
            await source.delete(number)
            item.version = None
        elif source.rewrites:
            item.version += 1
            await source.write(number, item.version, is_matched=item.is_matched)
    for _ in range(new):
        number, item = next(numbers), Item(is_matched=seed.random() < 0.85)
        if source.names_decide and not item.is_matched:
            item.gone = "not_matched"
        await source.write(number, 0, is_matched=item.is_matched)
        items[number] = item


async def decide(world: ExplainedWorld, fate: str) -> str | None:
    """Let the fate come to pass. Return the run that has the events of the round."""
    if fate == "keep":
        return None
    if fate == "dequeue":
        await world.client.delete("/api/v2/dags/load/assets/queuedEvents")
        return None
    run_id = await world.consume("success" if fate == "delete" else fate)
    if fate == "delete":
        answer = await world.client.delete(f"/api/v2/dags/load/dagRuns/{run_id}")
        assert answer.status_code == 204, answer.text
    return run_id


@on_both
@pytest.mark.service
async def test_random_files_and_rows_are_explained_as_a_model_knows_them(
    database: Database,
    postgres_database: PostgresDatabase,
    s3_server: S3Server,
    bucket: str,
    tmp_path: Path,
) -> None:
    seed, numbers, model = random.Random(SEED), count(1), Model()
    fates = [*FATES * effort(1, 2)]
    seed.shuffle(fates)
    new = effort(120, 1200) // (4 * (len(fates) + 2))
    rows = await asyncpg.connect(postgres_database.dsn)
    await rows.execute(RowsById.TABLE)
    await rows.execute(RowsByKey.TABLE)
    sources: Mapping[str, Source] = {
        "folder": FolderSource(tmp_path / "in", seed),
        "bucket": BucketSource(s3_server.client, bucket, seed),
        "by_id": RowsById(rows),
        "by_key": RowsByKey(rows),
    }
    triggers = {name: (source.trigger, source.options) for name, source in sources.items()}
    postgres = PostgresConnection.model_validate({"type": "postgres", "dsn": postgres_database.dsn})
    async with explained_world(
        database, triggers, {*sources}, tmp_path, postgres=postgres, s3=s3_connection(s3_server)
    ) as world:
        waiting: list[int] = []
        for round_, fate in enumerate([None, *fates, None]):
            for name, source in sources.items():
                several = new if round_ else 4 * new  # few of the first ones stay as they were
                await change(source, dict_of(model, name), seed, numbers, several)
            if fate is None and round_ > 0:
                break  # what came last is polled by nobody
            if round_ == 0:
                await anyio.sleep(1.1)  # what a bucket got in the second of the start may count as new
            for name in sources:
                await world.poll(name)
                model.poll(name, None if fate is None else round_)
            if fate is not None:
                waiting.append(round_)
                run_id = await decide(world, fate)
                model.fates |= dict.fromkeys(waiting, (STATES.get(fate, fate), run_id))
                waiting = waiting if fate == "keep" else []
        await turn(world, model, seed)

        wrong, counted = [], Counter[str]()
        for name, number in seed.sample(all_of(model), len(all_of(model))):
            state, run_id = model.expected(model.items[name][number])
            [answer] = await world.explained(sources[name].item(number), watcher=name)
            counted[answer["state"]] += 1
            if answer["state"] != state or (run_id is not None and run_id not in [r["run_id"] for r in answer["runs"]]):
                wrong.append((name, sources[name].item(number), state, run_id, answer))
    await rows.close()
    assert wrong == []
    assert {*counted} == STATES_OF_MODEL


@on_both
@pytest.mark.service
async def test_random_files_and_rows_that_no_run_has_are_explained(
    database: Database, postgres_database: PostgresDatabase, tmp_path: Path
) -> None:
    """With the states of the test above these are all that there are."""
    seed, folder, expected = random.Random(SEED), tmp_path / "in", dict[tuple[str, str], str]()
    folder.mkdir()
    rows = await asyncpg.connect(postgres_database.dsn)
    await rows.execute("CREATE TABLE weights (id bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY, weight int)")
    for _ in range(effort(30, 500)):
        is_good, name = seed.random() < 0.6, f"{seed.getrandbits(40)}"
        (folder / (f"{name}.csv" if is_good else os.fsdecode(f"{name}-".encode() + b"\xff.csv"))).write_text("x")
        expected["files", f"{name}.csv" if is_good else f"{name}-\\xff.csv"] = "reported" if is_good else "rejected"
        expected["files", seed.choice([f"s3://landing/{name}.csv", f"../{name}.csv"])] = "outside"
        row = await rows.fetchval("INSERT INTO weights (weight) VALUES ($1) RETURNING id", int(is_good))
        expected["rows", str(row)] = "reported" if is_good else "rejected"
        expected["rows", f"{name}-{row}"] = "outside"
    triggers: Mapping[str, Any] = {
        "files": (FileNewFiles, {**FILES, "path": str(folder), "start": "all", "on_bad_row": "report"}),
        "rows": (NewRows, {**WEIGHTS, "start": "all", "on_bad_row": "report", "batch": {"max_rows": 50}}),
    }
    postgres = PostgresConnection.model_validate({"type": "postgres", "dsn": postgres_database.dsn})
    async with explained_world(database, triggers, set(), tmp_path, postgres=postgres) as world:
        for name in triggers:
            await world.poll(name)
        states = {(name, item): await world.state(item, name) for name, item in expected}
        assert states == expected

        async with database.transaction() as connection:
            await connection.execute(delete(asset_event))
            await connection.execute(update(asset).values(created_at=datetime.now(UTC) - timedelta(days=200)))
        forgotten = [item for (name, item), state in expected.items() if (name, state) == ("rows", "reported")]
        assert {await world.state(item, "rows") for item in forgotten} == {"past_retention"}
    await rows.close()
    assert {*expected.values(), "past_retention", *STATES_OF_MODEL, *ELSEWHERE} == {*Fate}


def dict_of(model: Model, name: str) -> dict[int, Item]:
    return model.items.setdefault(name, {})


def all_of(model: Model) -> list[tuple[str, int]]:
    return [(name, number) for name, items in sorted(model.items.items()) for number in items]


async def turn(world: ExplainedWorld, model: Model, seed: random.Random) -> None:
    """Let one of the failed runs be retried: what its items are changes with it."""
    runs = sorted({run_id for state, run_id in model.fates.values() if state == "failed" and run_id})
    chosen = seed.choice(runs)
    async with world.database.transaction() as connection:
        await connection.execute(update(run).where(run.c.run_id == chosen).values(state="running"))
    model.fates = {
        round_: ("running", run_id) if run_id == chosen else (state, run_id)
        for round_, (state, run_id) in model.fates.items()
    }
