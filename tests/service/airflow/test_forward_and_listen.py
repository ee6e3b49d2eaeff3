"""Events go to and come from a stand-in for Airflow, over HTTP and on both databases: what is lost or repeated."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from typing import Any

import anyio
import pytest
from pydantic import SecretStr
from sqlalchemy import select

from config.features.airflow.settings import AirflowSettings
from store.catalog import catalog_sync, neighbour
from store.catalog.catalog_sync import Declared, DeclaredAsset
from store.catalog.neighbour import DeclaredForward
from store.database import Database
from store.database.schema import asset_event
from store.detection import events, outbox
from store.detection.interest import EventOrigin
from store.processes import cleanup, installation
from store.processes.cleanup import Retention
from tests.databases import on_both
from tests.effort import PATIENCE
from tests.features import HOOKS, KEPT_EVENTS
from tests.service.airflow.configured import settings
from tests.service.store.words import event
from tests.stand_in_airflow import StandInAirflow
from watcher.host.health import Health
from watcher.host.leader_election import Leadership
from watcher.outbound.airflow.neighbour import Neighbour
from watcher.outbound.outbox.sender import Sender

pytestmark = [pytest.mark.service, on_both]
HOME = "55555555-5555-5555-5555-555555555555"
AGES = timedelta(days=1)


@dataclass
class Ours:
    """Our side: a database with the assets `orders` and `theirs`, the leader's tasks, and their health."""

    database: Database
    airflow: StandInAirflow
    asset_ids: dict[str, int] = field(default_factory=dict)
    health: Health = field(default_factory=Health)
    wake: Any = None

    async def configure(self, configured: AirflowSettings) -> str:
        forwards = [
            DeclaredForward(asset=name, target=each.asset, with_partition_key=each.partition_key)
            for name, each in configured.forwards.items()
        ]
        declared = Declared(
            hash="",
            assets=[DeclaredAsset(name=n, uri=f"x-test:{n}", group="", extra="{}") for n in ("orders", "theirs", "b")],
            watchers=[],
            jobs=[],
            features={"airflow": partial(neighbour.apply, forwards=forwards, listens=tuple(configured.listen))},
        )
        async with self.database.transaction() as connection:
            applied = await catalog_sync.apply(connection, declared, self.database.dialect)
            self.asset_ids = dict(applied.asset_ids)
            return await installation.instance(connection, self.database.dialect)

    @asynccontextmanager
    async def running(self, **more: Any) -> AsyncIterator[None]:
        """Run the leader's tasks for the block. Leaving the block acts like a crash: what they had in memory is lost."""
        configured = settings(self.airflow, **more)
        instance = await self.configure(configured)
        leader = Leadership(database=self.database, owner=HOME, heartbeat=AGES, lease=AGES, on_taken=lambda: None)
        await leader.campaign()
        common: dict[str, Any] = {"database": self.database, "leadership": leader}
        reading = {"hint": lambda _hint: None, "hooks": HOOKS}
        part = Neighbour(settings=configured, instance=instance, health=self.health, **reading, **common)
        sender = Sender(destinations=part.destinations, **common)
        self.wake = sender.wake
        async with anyio.create_task_group() as tasks:
            await tasks.start(sender.run)
            await tasks.start(part.run)
            yield
            tasks.cancel_scope.cancel()

    async def tell(self, name: str, *extras: str, partition_key: str | None = None) -> None:
        async with self.database.transaction() as connection:
            new = [replace(event(self.asset_ids[name], extra), partition_key=partition_key) for extra in extras]
            await events.append(connection, new, origin=EventOrigin.POST, hooks=HOOKS)
        if self.wake:
            self.wake()

    async def received(self, name: str = "theirs") -> list[dict[str, Any]]:
        """Return the extras of our asset's events, oldest first."""
        e = asset_event.c
        query = select(e.extra).where(e.asset_id == self.asset_ids[name]).order_by(e.id)
        async with self.database.reading() as connection:
            return [json.loads(extra) for extra in (await connection.execute(query)).scalars()]

    async def received_ids(self) -> list[int]:
        return [extra["airflow"]["event_id"] for extra in await self.received()]

    async def owed(self) -> int:
        async with self.database.reading() as connection:
            return sum((await outbox.depths(connection)).values())

    async def stuck(self, name: str) -> Sequence[outbox.StuckLane]:
        async with self.database.reading() as connection:
            return await outbox.stuck(connection, self.asset_ids[name])

    async def all_sent(self) -> None:
        with anyio.fail_after(PATIENCE):
            while await self.owed():
                await anyio.sleep(0.02)

    async def all_heard(self, count: int) -> None:
        with anyio.fail_after(PATIENCE):
            while len(await self.received()) < count:
                await anyio.sleep(0.02)

    async def listening(self) -> None:
        with anyio.fail_after(PATIENCE):
            while self.health.awaited:
                await anyio.sleep(0.01)


@pytest.fixture
def ours(database: Database, airflow: StandInAirflow) -> Ours:
    return Ours(database=database, airflow=airflow)


FORWARD = {"forward": {"orders": "their_orders"}}
LISTEN = {"listen": {"their_orders": "theirs"}}


@pytest.mark.parametrize("target", ["their_orders", "s3://their/orders"])
async def test_events_go_to_airflow_in_order_with_their_extras(ours: Ours, target: str) -> None:
    async with ours.running(forward={"orders": target}):
        await ours.tell("orders", '{"n": 1}', '{"n": 2, "price": 0.10}')
        await ours.tell("b", '{"n": 3}')
        await ours.all_sent()
    extras = [each["extra"] for each in ours.airflow.events]
    assert [extra["n"] for extra in extras] == [1, 2]
    marks = ours.airflow.made()
    assert len({mark["instance"] for mark in marks}) == 1
    assert all(mark["event_id"].startswith(mark["instance"]) for mark in marks)


@pytest.mark.parametrize("fault", ["lost before", "lost after", "503 before", "503 after", "silent after"])
async def test_a_lost_answer_causes_no_loss_and_no_repeat(ours: Ours, fault: Any) -> None:
    ours.airflow.faults.append(fault)
    async with ours.running(**FORWARD):
        await ours.tell("orders", '{"n": 1}', '{"n": 2}')
        await ours.all_sent()
    assert [each["extra"]["n"] for each in ours.airflow.events] == [1, 2]


async def test_a_poll_reads_all_pages(ours: Ours) -> None:
    ours.airflow.page = 2
    for number in range(7):
        ours.airflow.tell("their_orders", {"n": number})
    ours.airflow.faults.append("lost after")
    async with ours.running(**FORWARD):
        await ours.tell("orders", '{"n": 100}')
        await ours.all_sent()
    assert len(ours.airflow.made()) == 1


async def test_an_asset_that_airflow_refuses_delays_no_other_and_its_reason_is_shown(ours: Ours) -> None:
    async with ours.running(forward={"orders": "their_orders", "b": "missing"}):
        await ours.tell("b", "{}")
        await ours.tell("orders", '{"n": 1}')
        with anyio.fail_after(PATIENCE):
            while await ours.owed() > 1 or not (lanes := await ours.stuck("b")):
                await anyio.sleep(0.02)
        (lane,) = lanes
        warning = "Airflow has no active asset 'missing': name one that a Dag there uses, by name or uri"
        assert await ours.stuck("orders") == []
        assert (lane.asset, lane.target, lane.refused, lane.error) == ("b", "missing", True, warning)
        ours.airflow.assets["missing"] = "s3://missing"
        await ours.all_sent()
    assert len(ours.airflow.made("missing")) == 1


async def test_a_user_signs_in_again_when_the_token_has_expired(ours: Ours) -> None:
    async with ours.running(**FORWARD, user="watcher", password=SecretStr("right")):
        await ours.tell("orders", "{}")
        await ours.all_sent()
        ours.airflow.tokens.clear()
        await ours.tell("orders", "{}")
        await ours.all_sent()
    assert (len(ours.airflow.made()), ours.airflow.sign_ins) == (2, 2)


async def test_each_event_of_airflow_since_the_first_poll_becomes_one_of_ours(ours: Ours) -> None:
    ours.airflow.page = 2
    for number in range(5):
        ours.airflow.tell("their_orders", {"n": number}, late=number)
    ours.airflow.tell("their_orders", {"n": "in flight"}, late=3, hidden=True)
    async with ours.running(**LISTEN):
        await ours.listening()
        ours.airflow.show()
        new = [ours.airflow.tell("their_orders", {"n": number}) for number in range(10, 15)]
        await ours.all_heard(6)
    async with ours.running(**LISTEN):
        late = ours.airflow.tell("their_orders", {"n": "late"}, late=60)
        await ours.all_heard(7)
    received = await ours.received()
    assert received[0] == {
        "n": "in flight",
        "airflow": {
            "event_id": 6,
            "dag_id": "produce",
            "run_id": "manual__1",
            "task_id": "make",
            "map_index": -1,
        },
    }
    assert await ours.received_ids() == [6, *new, late]
    e = asset_event.c
    async with ours.database.reading() as connection:
        rows = (await connection.execute(select(e.source_dag_id, e.source_run_id, e.source_watcher))).all()
    assert {tuple(row) for row in rows} == {(None, None, None)}


async def test_events_keep_the_partition_keys_that_they_have_in_airflow(ours: Ours) -> None:
    async with ours.running(**LISTEN):
        await ours.listening()
        for key in ("2026-11-20", None, "eu|x", " ", "x" * 251, "a\0b"):
            ours.airflow.tell("their_orders", partition_key=key)
        await ours.all_heard(6)
    e = asset_event.c
    async with ours.database.reading() as connection:
        keys = (await connection.execute(select(e.partition_key).order_by(e.id))).scalars().all()
    assert keys == ["2026-11-20", None, "eu|x", None, None, None]


async def test_events_take_their_partition_keys_to_airflow_if_the_configuration_says_so(ours: Ours) -> None:
    keys = ["2026-11-20|eu", 'Größe "L"', None]
    forward: dict[str, Any] = {"orders": {"asset": "their_orders", "partition_key": True}, "b": "their_b"}
    ours.airflow.assets["their_b"] = "s3://their/b"
    async with ours.running(forward=forward):
        for key in keys:
            await ours.tell("orders", "{}", partition_key=key)
        await ours.tell("b", "{}", partition_key="2026-11-20")
        await ours.all_sent()
    made = [[each["partition_key"] for each in ours.airflow.events if each["asset_id"] == number] for number in (1, 2)]
    assert made == [keys, [None]]


async def test_a_key_is_in_airflow_once_whatever_happens_to_answers_and_daemons(ours: Ours) -> None:
    forward: dict[str, Any] = {"orders": {"asset": "their_orders", "partition_key": True}}
    ours.airflow.faults += ["lost after", "503 before", "silent after"]
    keys = [f"2026-11-{day}" for day in range(10, 20)]
    await ours.configure(settings(ours.airflow, forward=forward))
    for key in keys:
        await ours.tell("orders", "{}", partition_key=key)
    for _ in range(3):
        async with ours.running(forward=forward):  # each end is a crash
            await anyio.sleep(0.2)
    async with ours.running(forward=forward):
        await ours.all_sent()
    assert [each["partition_key"] for each in ours.airflow.events] == keys
    assert len({mark["event_id"] for mark in ours.airflow.made()}) == len(keys)


async def test_an_airflow_that_knows_no_partition_keys_is_named_and_gets_the_events_once_it_does(ours: Ours) -> None:
    ours.airflow.version = "3.1.5"
    forward: dict[str, Any] = {"orders": {"asset": "their_orders", "partition_key": True}}
    async with ours.running(forward=forward):
        await ours.tell("orders", "{}", partition_key="2026-11-20")
        with anyio.fail_after(PATIENCE):
            while not (stuck := await ours.stuck("orders")):
                await anyio.sleep(0.02)
        assert stuck[0].refused
        assert "knows partition keys from 3.2 on" in stuck[0].error
        ours.airflow.version = "3.2.0"
        await ours.all_sent()
    assert [each["partition_key"] for each in ours.airflow.events] == ["2026-11-20"]


async def test_events_are_not_sent_back_to_where_they_came_from(ours: Ours) -> None:
    async with ours.running(
        forward={"orders": "their_orders", "theirs": "other"}, listen={"their_orders": "theirs", "other": "orders"}
    ):
        ours.airflow.assets["other"] = "s3://other"
        await ours.listening()
        await ours.tell("orders", '{"n": 1}')
        foreign = ours.airflow.tell("their_orders", {"n": 2})
        await ours.all_heard(1)
        await ours.all_sent()
    assert await ours.received_ids() == [foreign]
    assert len(ours.airflow.made()) == 1
    assert ours.airflow.made("other") == []


@pytest.mark.parametrize("talks", [None, {"status": "ok"}, ["ok"], "ok"])
async def test_an_airflow_that_is_down_or_answers_nonsense_is_only_a_warning(
    ours: Ours, talks: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """JSON of another shape may come from a proxy, or from another service."""
    if talks is None:
        ours.airflow.is_away = True
    else:
        monkeypatch.setattr(ours.airflow, "answer", lambda *_: (200, talks))
    async with ours.running(**FORWARD, **LISTEN):
        await ours.tell("orders", "{}")
        await ours.listening()
        with anyio.fail_after(PATIENCE):
            while not ours.health.warnings() or not await ours.stuck("orders"):
                await anyio.sleep(0.02)
        assert ours.health.reasons(None) == []
        ours.airflow.is_away = False
        monkeypatch.undo()
        await ours.all_sent()
        with anyio.fail_after(PATIENCE):
            while ours.health.warnings():
                await anyio.sleep(0.02)
        ours.airflow.tell("their_orders")
        await ours.all_heard(1)
    assert len(ours.airflow.made()) == 1


async def test_listening_starts_anew_after_it_was_switched_off(ours: Ours) -> None:
    async with ours.running(**LISTEN):
        await ours.listening()
    async with ours.running():
        ours.airflow.tell("their_orders")
    async with ours.running(**LISTEN):
        await ours.listening()
        new = ours.airflow.tell("their_orders")
        await ours.all_heard(1)
    assert await ours.received_ids() == [new]


async def test_an_extra_that_cannot_be_stored_delays_no_other_event(ours: Ours) -> None:
    async with ours.running(**LISTEN):
        await ours.listening()
        ids = [ours.airflow.tell("their_orders", {"bad": "\ud800"}), ours.airflow.tell("their_orders")]
        await ours.all_heard(2)
    assert await ours.received_ids() == ids


async def test_the_clean_up_keeps_events_that_are_in_the_outbox(ours: Ours) -> None:
    await ours.configure(settings(ours.airflow, **FORWARD))
    await ours.tell("orders", "{}")
    await ours.tell("b", "{}")
    retention = Retention(task_days=0, history_days=0, event_days=0, run_days=0, orphan_days=0)
    (old,) = [sweep for sweep in await cleanup.sweeps(ours.database, retention, KEPT_EVENTS) if sweep.name == "events"]
    async with ours.database.reading() as connection:
        assert await old.count(connection) == 1
    async with ours.running(**FORWARD):
        await ours.all_sent()
    async with ours.database.reading() as connection:
        assert await old.count(connection) == 2
