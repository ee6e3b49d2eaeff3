"""Watchers of a folder and a table with real triggers, polled and committed step by step, and the API that explains their items."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any

import anyio
import httpx
from pydantic import BaseModel
from sqlalchemy import update

from store.database import Database
from store.database.schema import run
from store.detection import positions
from store.features.clean_source import recording
from store.features.clean_source.recording import CleanedWatcher
from store.features.clean_source.tables import cleaning
from store.processes import cleanup
from store.processes.cleanup import Retention
from store.runs.queue import queues
from tests.features import HOOKS, ITEM_HOOKS, KEPT_EVENTS, TABLES
from tests.service.api.application import make_context, serving
from tests.service.store.words import apply, beat, consume_events, declared, lock_queue
from triggers.base import BaseEventTrigger
from triggers.options import facts_of
from watcher.features.clean_source.decision import PASSES
from watcher.features.clean_source.service import SourceCleaning
from watcher.features.versions.declaration import be_interested
from watcher.host.health import Health, WatcherReport
from watcher.host.metrics import Metrics
from watcher.serving.api.context import ApiContext, WatcherControl
from watcher.triggerer.clients import Clients, Hosted, ImportedTrigger, open_trigger
from watcher.triggerer.committing import Committer, identity_json, stored
from watcher.triggerer.control import Control

OWNER = "t1"
PATIENCE = timedelta(minutes=1)
LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)
Configured = tuple[type[BaseEventTrigger[Any, Any]], Mapping[str, Any]]


@dataclass(kw_only=True)
class ExplainedWorld:
    """The watchers of an installation, each of an asset of its own name; the job `load` waits for the assets of `scheduled`."""

    database: Database
    hosted: Mapping[str, Hosted]
    clients: Clients
    client: httpx.AsyncClient
    context: ApiContext
    consumed: int = field(default=0)

    async def poll(self, name: str) -> None:
        """Poll a watcher to the end of its source, and commit what it finds."""
        committer = Committer(database=self.database, metrics=Metrics(), hooks=HOOKS, on_events=lambda _dag_ids: None)
        hosted = self.hosted[name]
        async with self.database.transaction() as connection:
            loaded = await positions.claim(connection, name, OWNER, self.database.dialect, hosted.trigger.format)
        assert loaded is not None
        held = loaded.held
        async with open_trigger(hosted, self.clients, PATIENCE, has_position=loaded.state is not None) as trigger:
            await trigger.check()
            identity = identity_json(trigger.source_identity())
            async for batch in trigger.events(stored(loaded)):
                held = await committer.commit(hosted, held, identity, batch)
                if batch.whole_since is not None:
                    return

    async def consume(self, state: str, *, reason: str | None = None, bad_records: int | None = None) -> str:
        """Make a run of all queued events of the job, and put it into this state."""
        self.consumed += 1
        run_id = f"run-{self.consumed}"
        async with self.database.transaction() as connection:
            queue = await lock_queue(connection, "load")
            assert queue is not None
            ids = list(await queues.oldest(connection, "load", 10_000, None))
            await consume_events(connection, queue, run_id, ids, None)
            values = {"state": state, "reason": reason, "bad_records": bad_records}
            await connection.execute(update(run).where(run.c.run_id == run_id).values(**values))
        return run_id

    async def forget_runs(self) -> int:
        """Let every run have ended long ago, and remove those past their retention; return how many the clean-up removed."""
        days = {"task_days": 30, "history_days": 90, "event_days": 90, "run_days": 90, "orphan_days": 30}
        [sweep] = [
            each for each in await cleanup.sweeps(self.database, Retention(**days), KEPT_EVENTS) if each.name == "runs"
        ]
        async with self.database.transaction() as connection:
            await connection.execute(update(run).values(end_date=LONG_AGO))
            return (await sweep.remove(connection, 10_000, None, self.database.dialect)).rows

    async def clean(self, name: str) -> None:
        """Clean the source of a watcher, as the process that hosts it does, until nothing is left to do."""
        hosted, health = self.hosted[name], Health()
        async with open_trigger(hosted, self.clients, PATIENCE, has_position=True) as trigger:
            health.watchers[name] = WatcherReport(state="running", trigger=trigger)
            cleans = SourceCleaning(
                database=self.database, owner=OWNER, health=health, metrics=Metrics(), hosted=lambda: self.hosted
            )
            for _ in range(PASSES):
                await bring_forward(self.database)
                while await cleans.look():
                    pass

    async def explained(self, item: str, **query: str) -> list[Any]:
        answer = await self.client.get("/api/v2/explain", params={"item": item, **query})
        assert answer.status_code == 200, answer.text
        assert answer.json()["item"] == item
        return list(answer.json()["answers"])

    async def state(self, item: str, watcher: str) -> str:
        [answer] = await self.explained(item, watcher=watcher)
        return f"{answer['state']}"


async def bring_forward(database: Database) -> None:
    """Let the time come at which the files of every event are looked at."""
    async with database.transaction() as connection:
        await connection.execute(update(cleaning).where(cleaning.c.due_at.is_not(None)).values(due_at=LONG_AGO))


@asynccontextmanager
async def explained_world(
    database: Database,
    triggers: Mapping[str, Configured],
    scheduled: set[str],
    logs: Path,
    *,
    jobs: Mapping[str, Sequence[str]] = MappingProxyType({}),
    **connections: BaseModel,
) -> AsyncIterator[ExplainedWorld]:
    """Open the watchers. A watcher that needs a connection has the one with the name of the connection's type.

    `jobs` are further ones, each with the assets that it waits for, which are all configured.
    """
    options = {name: trigger.Options.model_validate(given) for name, (trigger, given) in triggers.items()}
    facts = {name: facts_of(each) for name, each in options.items()}
    further = {name: each.further_assets for name, each in facts.items()}
    configured = declared(
        assets={name: f"x://{name}" for name in (*triggers, *chain(*further.values(), *jobs.values()))},
        watchers={name: name for name in triggers},
        jobs={"load": sorted(scheduled), **jobs},
    )
    watchers = [replace(each, further_assets=further[each.name]) for each in configured.watchers]
    cleaned = {
        name: CleanedWatcher(after=each.cleaned_after, assets={name, *further[name]})
        for name, each in facts.items()
        if each.cleaned_after is not None
    }
    versioned = {each for name, of in facts.items() if of.names_versions for each in (name, *further[name])}
    features = {
        "clean_source": partial(recording.apply, watchers=cleaned),
        "versions": partial(be_interested, assets=versioned),
    }
    ids = (await apply(database, replace(configured, watchers=watchers, features=features))).asset_ids
    await beat(database, OWNER)
    hosted = {
        name: Hosted(
            name=name,
            asset=name,
            asset_id=ids[name],
            trigger=ImportedTrigger(trigger),
            options=options[name],
            connection=trigger.connection_type,
            facts=facts[name],
            further_assets={each: ids[each] for each in further[name]},
        )
        for name, (trigger, _) in triggers.items()
    }
    async with anyio.create_task_group() as tasks:
        clients = Clients(connections, tasks)
        control = Control(tables=TABLES, database=database, hosted=hosted, clients=clients, poll_timeout=PATIENCE)
        watched = WatcherControl(control=control)
        context = replace(make_context(database, logs), item_hooks=ITEM_HOOKS, watchers=watched)
        async with serving(context) as client:
            yield ExplainedWorld(database=database, hosted=hosted, clients=clients, client=client, context=context)
        tasks.cancel_scope.cancel()
