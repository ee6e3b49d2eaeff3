"""The table of states of docs/scheduling.md is true: each row has a check."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from store.catalog import catalog_sync
from store.fates import AT_A_JOB
from store.keys import Batching
from store.partition_keys import Completeness
from tests.databases import on_both
from tests.service.api.application import CONFIGURED, Api
from tests.service.api.test_partition_keys import EVENTS, RUNS, finished, posted, scheduled, told

pytestmark = pytest.mark.service
PAGE: Final = (Path(__file__).parents[3] / "docs/scheduling.md").read_text(encoding="utf-8")
SECTION: Final = PAGE.partition("## The states of an event\n")[2].partition("\n## ")[0]
STATES: Final = re.findall(r"^\| (`[a-z_`, ]+) \|", SECTION, re.MULTILINE)
QUEUE: Final = "/api/v2/dags/load_orders/queue"
ALWAYS: Final = {"from": "2000-01-01T00:00:00Z", "to": "2200-01-01T00:00:00Z"}


async def configure(api: Api, schedule: Any, batch: Batching | None = None) -> None:
    (load, report) = CONFIGURED.jobs
    definition = replace(load.definition, schedule=schedule, batch=batch or load.definition.batch)
    keyed = [replace(each, partition_parts='["day", "region"]') for each in CONFIGURED.assets]
    new = replace(CONFIGURED, assets=keyed, jobs=[replace(load, definition=definition), report])
    async with api.database.transaction() as connection:
        await catalog_sync.apply(connection, new, api.database.dialect)


async def states(api: Api, **more: Any) -> Mapping[str, int]:
    """How many of all events a replay finds in each state, by its own words."""
    counts = await posted(api, "/api/v2/dags/load_orders/replay", **ALWAYS, **more)
    return {name: counts[name] for name in ("queued", "waiting", "running", "cleared", "dropped") if counts[name]}


async def events_of(api: Api, run_id: str) -> list[int]:
    return [event["id"] for event in (await api.get(f"{RUNS}/{run_id}/upstreamAssetEvents"))["asset_events"]]


async def kept(api: Api) -> int:
    return int((await api.get(QUEUE))["kept"])


async def _not_taken(api: Api) -> None:
    await configure(api, {"asset": "landing", "where": {"extra.region": "eu"}})
    await told(api, "landing", None)
    await configure(api, "landing")
    assert await scheduled(api) == []
    assert await states(api) == {"queued": 1}


async def _waits(api: Api) -> None:
    await api.client.patch("/api/v2/dags/load_orders", json={"is_paused": True})
    mine = [(await told(api, "landing", None))["id"] for _ in range(2)]
    assert await states(api) == {"waiting": 2}
    await api.client.patch("/api/v2/dags/load_orders", json={"is_paused": False})
    assert await scheduled(api) == []
    mine.append((await told(api, "customers", None))["id"])
    [(run_id, _)] = await scheduled(api)
    assert await events_of(api, run_id) == mine


async def _collects(api: Api) -> None:
    await configure(api, "landing")
    await told(api, "landing", None)
    [(first, _)] = await scheduled(api)
    mine = [(await told(api, "landing", None))["id"] for _ in range(2)]
    assert [run_id for run_id, _ in await scheduled(api)] == [first]
    assert await states(api) == {"running": 1, "waiting": 2}
    await finished(api, first)
    [_, (second, _)] = await scheduled(api)
    assert await events_of(api, second) == mine


async def _late(api: Api) -> None:
    complete = Completeness(part="region", values=("eu", "us"))
    both = {"all": ["landing", "customers"]}
    await configure(api, both, Batching(mode="per_partition", by=("day",), complete=complete))
    for asset in ("landing", "customers"):
        for region in ("eu", "us"):
            assert await scheduled(api) == []
            await told(api, asset, f"2026|{region}")
    [(first, _)] = await scheduled(api)
    claim = await finished(api, first)
    assert (claim["partition_complete"], claim["late"]) == (True, False)
    await told(api, "landing", "2026|asia")
    [_, (second, _)] = await scheduled(api)
    claim = await finished(api, second)
    assert (claim["partition_complete"], claim["late"]) == (True, True)


async def _left_over(api: Api) -> None:
    left = await told(api, "customers", None)
    await configure(api, "landing")
    assert (await scheduled(api), await kept(api)) == ([], 1)
    assert await states(api, asset="customers") == {"waiting": 1}
    came = await told(api, "landing", None)
    [(run_id, _)] = await scheduled(api)
    assert await events_of(api, run_id) == [left["id"], came["id"]]
    assert await kept(api) == 0


async def _running(api: Api) -> None:
    await configure(api, "landing")
    event = await told(api, "landing", None)
    [(run_id, _)] = await scheduled(api)
    await told(api, "landing", None)
    await scheduled(api)
    assert await events_of(api, run_id) == [event["id"]]
    assert await states(api) == {"running": 1, "waiting": 1}


async def _over(api: Api) -> None:
    await configure(api, "landing")
    event = await told(api, "landing", None)
    [(run_id, _)] = await scheduled(api)
    await finished(api, run_id)
    assert await states(api) == {"cleared": 1}
    await posted(api, f"{RUNS}/{run_id}/clear", dry_run=False)
    assert [each for each, _ in await scheduled(api)] == [run_id]
    assert await events_of(api, run_id) == [event["id"]]
    [shown] = (await api.get(EVENTS, asset_id=api.asset_ids["landing"]))["asset_events"]
    assert [run["run_id"] for run in shown["created_dagruns"]] == [run_id]


async def _dropped(api: Api) -> None:
    await told(api, "landing", None)
    await api.client.delete("/api/v2/dags/load_orders/assets/queuedEvents")
    assert await states(api) == {"dropped": 1}
    await told(api, "customers", None)
    assert await scheduled(api) == []
    assert await states(api, include_dropped=True) == {"queued": 1, "waiting": 1}


CHECKS: Final[Mapping[str, Callable[[Api], Awaitable[None]]]] = {
    "`not_taken`": _not_taken,
    "`queued`, waits": _waits,
    "`queued`, collects": _collects,
    "`queued`, is late": _late,
    "`queued`, is left over": _left_over,
    "`queued`, `running` in a run": _running,
    "`loaded`, `failed`": _over,
    "`dropped`": _dropped,
}


def test_each_state_has_a_check_and_a_word_of_the_list() -> None:
    assert [*CHECKS] == STATES
    words = [word for state in STATES for word in re.findall(r"`(\w+)`", state)]
    assert {*words} <= {*AT_A_JOB}


@on_both
@pytest.mark.parametrize("state", CHECKS)
async def test_each_check_confirms_its_state(api: Api, state: str) -> None:
    await CHECKS[state](api)
