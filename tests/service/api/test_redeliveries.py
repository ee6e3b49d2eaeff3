"""A partition that is delivered again has one run for each complete delivery, with what came since the last one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest
from sqlalchemy import update

from store.catalog import catalog_sync
from store.database.schema import queued_event
from store.keys import Batching
from store.partition_keys import Completeness
from tests.databases import on_both
from tests.service.api.application import CONFIGURED, Api
from tests.service.api.test_partition_keys import EVENTS, finished, posted, scheduled

pytestmark = [on_both, pytest.mark.feature("partitions")]
QUEUE: Final = "/api/v2/dags/load_orders/queue"
AN_HOUR: Final = timedelta(hours=1)
WHOLE: Final = (True, False, False)
REDELIVERED: Final = (True, False, True)
"""What a run says: whether its partition is complete, whether it is late, and whether it is redelivered."""


async def configure(api: Api, complete: Completeness, schedule: Any = "landing", **more: Any) -> None:
    """Let the job take partitions by day, of assets whose keys have a day and a region."""
    (load, report) = CONFIGURED.jobs
    batch = Batching(mode="per_partition", by=("day",), complete=complete, **more)
    keyed = [replace(each, partition_parts='["day", "region"]') for each in CONFIGURED.assets]
    definition = replace(load.definition, schedule=schedule, batch=batch, deadline=timedelta(0))
    async with api.database.transaction() as connection:
        new = replace(CONFIGURED, assets=keyed, jobs=[replace(load, definition=definition), report])
        await catalog_sync.apply(connection, new, api.database.dialect)


async def comes(api: Api, *names: str, key: str = "1|", version: int = 1, asset: str = "landing", **more: Any) -> int:
    """Let an event with these files come; return its id."""
    files = [{"bucket": "b", "key": f"dt=1/{name}", "etag": str(version)} for name in names]
    body = {"asset_id": api.asset_ids[asset], "partition_key": key, "extra": {"files": files, **more}}
    event: Mapping[str, Any] = await posted(api, EVENTS, **body)
    return int(event["id"])


async def names_files(api: Api, *names: str, version: int) -> int:
    """Let a manifest of these files come."""
    return await comes(api, "all.list", version=version, last=True, manifests={"s3://b/dt=1/all.list": names})


async def runs(api: Api) -> list[tuple[list[int], tuple[bool, bool, bool]]]:
    """Return the events of each run that is queued after a look of the scheduler, and what it says; they end with success."""
    made = []
    await scheduled(api)
    for run in (await api.get("/api/v2/dags/load_orders/dagRuns", state="queued", order_by="id"))["dag_runs"]:
        claim = await finished(api, run["dag_run_id"])
        events = [each["id"] for some in claim["triggering_asset_events"].values() for each in some]
        said = (claim["partition_complete"], claim["late"], claim["redelivered"])
        made.append((sorted(events), said))
    return made


async def lacking(api: Api) -> list[str | None]:
    return [each["lacks"] for each in (await api.get(QUEUE))["partitions"]]


async def test_what_comes_after_a_marker_waits_for_the_next_one_and_is_one_run(api: Api) -> None:
    await configure(api, Completeness(marker="**/_SUCCESS", again=True))
    first = [await comes(api, "part-0", "part-1"), await comes(api, "_SUCCESS", last=True)]
    early = await comes(api, "new-0")
    assert await runs(api) == [(first, WHOLE)], "what came after the marker is no part of the first delivery"
    assert await runs(api) == []
    assert await lacking(api) == ["redelivery incomplete: a file that matches `**/_SUCCESS`"]
    [problem] = [each for each in await api.get("/api/v2/problems") if each["kind"] == "waiting_too_long"]
    assert "for the partition 1 (redelivery incomplete)" in problem["message"]
    again = [early, await comes(api, "new-1"), await comes(api, "_SUCCESS", version=2, last=True)]
    assert await runs(api) == [(again, REDELIVERED)]
    assert (await api.get(QUEUE))["partitions"] == []


async def test_a_delivery_that_is_complete_before_anybody_looks_is_a_run_of_its_own(api: Api) -> None:
    await configure(api, Completeness(items=2, again=True), debounce=AN_HOUR, max_events=1)
    events = [await comes(api, f"{number}") for number in range(5)]
    assert await runs(api) == [(events[:2], WHOLE)], "nothing that comes later could go with it"
    assert await runs(api) == [(events[2:4], REDELIVERED)]
    assert await runs(api) == []
    assert await lacking(api) == ["redelivery incomplete: 1 more files or rows"]


async def test_files_that_came_before_have_come_for_a_newer_manifest(api: Api) -> None:
    await configure(api, Completeness(manifest="*.list", again=True))
    first = [await comes(api, "a", key="1|eu"), await comes(api, "b"), await names_files(api, "a", "b", version=1)]
    assert await runs(api) == [(first, WHOLE)]
    manifest = await names_files(api, "a", "b", "c", version=2)
    assert await runs(api) == []
    lacks = "redelivery incomplete: 1 of the 3 files that `s3://b/dt=1/all.list` names: `c`"
    assert await lacking(api) == [lacks]
    assert await runs(api) == [], "what lacks is read anew"
    last = await comes(api, "c")
    assert await runs(api) == [([manifest, last], REDELIVERED)]


async def test_a_file_has_not_come_before_if_its_newer_version_was_dropped(api: Api) -> None:
    await configure(api, Completeness(manifest="*.list", again=True))
    await comes(api, "a")
    await names_files(api, "a", version=1)
    assert len(await runs(api)) == 1
    await comes(api, "a", version=2)
    path = f"/api/v2/dags/load_orders/assets/{api.asset_ids['landing']}/queuedEvents"
    assert (await api.client.delete(path)).status_code == 204
    await names_files(api, "a", version=2)
    assert await runs(api) == []
    await comes(api, "a", version=3)
    [(_, said)] = await runs(api)
    assert said == REDELIVERED


async def test_the_values_have_to_come_again_but_not_an_asset_of_which_nothing_does(api: Api) -> None:
    complete = Completeness(part="region", values=("eu", "us"), again=True)
    await configure(api, complete, {"all": ["landing", "customers"]})
    first = [
        await comes(api, key=f"1|{region}", asset=asset)
        for asset in ("landing", "customers")
        for region in ("eu", "us")
    ]
    assert await runs(api) == [(first, WHOLE)]
    one = await comes(api, key="1|eu")
    assert await runs(api) == []
    assert await lacking(api) == ["redelivery incomplete: `landing` with region us"]
    other = await comes(api, key="1|us")
    assert await runs(api) == [([one, other], REDELIVERED)]


@pytest.mark.parametrize("by", ["a person", "its deadline"])
async def test_an_incomplete_delivery_is_run_by_a_person_or_when_its_deadline_is_over(api: Api, by: str) -> None:
    await configure(api, Completeness(items=2, again=True), run_after=2 * AN_HOUR)
    await comes(api, "a", "b")
    assert [said for _, said in await runs(api)] == [WHOLE]
    alone = await comes(api, "a", version=2)
    assert await runs(api) == []
    if by == "a person":
        await posted(api, QUEUE, action="run", partition="1")
    else:
        async with api.database.transaction() as connection:
            await connection.execute(update(queued_event).values(created_at=datetime.now(UTC) - 3 * AN_HOUR))
    assert await runs(api) == [([alone], (False, False, True))]
    both = [await comes(api, "a", version=3), await comes(api, "b", version=3)]
    assert await runs(api) == [(both, REDELIVERED)], "what came before counts no more"


async def test_without_again_what_comes_is_late_and_again_may_be_added_later(api: Api) -> None:
    marker = Completeness(marker="**/_SUCCESS")
    await configure(api, marker)
    await comes(api, "_SUCCESS")
    assert [said for _, said in await runs(api)] == [WHOLE]
    await comes(api, "late")
    assert [said for _, said in await runs(api)] == [(True, True, False)]
    await configure(api, replace(marker, again=True))
    await comes(api, "new")
    assert await runs(api) == []
    await configure(api, marker)
    assert [said for _, said in await runs(api)] == [(True, True, False)]
