"""Everything that is wrong stands in one list, and `watcher status`, `/readyz` and the overview show this list."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import anyio
import pytest
from sqlalchemy import insert, select, update

from store.catalog import watchers
from store.catalog.suspects import suspects
from store.catalog.watchers import WatcherState
from store.database.asset_events import NewEvent
from store.database.paging import now_of
from store.database.schema import asset, queued_event, run, run_asset_event, watcher, watcher_position
from store.database.schema import job as job_table
from store.detection import events
from store.detection.interest import NO_HOOKS, EventOrigin
from store.features.outbox import outbox as messages
from store.features.outbox.outbox import NewMessage
from store.features.outbox.tables import outbox
from store.keys import JobDefinition
from store.runs import runs
from store.runs.actions import decisions
from store.runs.tries import bad_records
from tests.databases import on_both
from tests.service.api.application import DEFINITION, Api, adapted, serving
from tests.service.web.browsing import Browser, browsing
from watcher.features.problems.reading import of_watcher
from watcher.host.health import Health, WatcherReport
from watcher.serving.api import create_app
from watcher.serving.http_server import listen, serve

pytestmark = [pytest.mark.service, on_both]
HOUR = timedelta(hours=1)
ASKED: dict[str, Any] = {"triggered_by": "test", "conf": "{}", "note": None}
FINDING = {"check": "clock", "level": "warning", "message": "the clock is 2 h behind", "remedy": "set it"}


async def state(api: Api, name: str, error: str | None = None, findings: list[dict[str, str]] | None = None) -> None:
    """Record a state of the watcher as its host does."""
    text = None if findings is None else json.dumps([{**each, "since": "2026-11-26T00:00:00Z"} for each in findings])
    shown = WatcherState(state=name, error=error, error_count=int(error is not None), findings=text)
    async with api.database.transaction() as connection:
        await watchers.set_states(connection, "t1", {"landing_files": shown})


async def hosted(api: Api) -> None:
    async with api.database.transaction() as connection:
        await connection.execute(
            insert(watcher_position).values(watcher="landing_files", owner="t1", state="{}", watermark="{}", version=1)
        )


async def fail(api: Api, run_id: str, reason: str, dag_id: str = "report") -> None:
    async with api.database.transaction() as connection:
        await runs.create_run(connection, dag_id, run_id, "load", **ASKED)
        await runs.move_run(connection, dag_id, run_id, "failed", reason=reason)


async def everything_is_wrong(api: Api) -> None:
    await hosted(api)
    await state(api, "failing", "the bucket is gone", [FINDING])
    for number in range(3):
        await fail(api, f"r{number}", f"no memory after {number} s")
    await fail(api, "other", "KeyError: 'id'")
    async with api.database.transaction() as connection:
        await runs.create_run(connection, "report", "bad", "load", **ASKED)
        await bad_records.note(connection, "report", "bad", 2)
        await runs.move_run(connection, "report", "bad", "success", reason="2 of a.csv")
        definition = JobDefinition.from_json(json.dumps({**DEFINITION, "deadline": 60}))
        await connection.execute(
            update(job_table).where(job_table.c.dag_id == "load_orders").values(definition=definition)
        )
        new = [NewEvent(asset_id=api.asset_ids["landing"], extra="{}", trace_id="0" * 32, source_actor="test")]
        await events.append(connection, new, origin=EventOrigin.POST, hooks=NO_HOOKS)
        await messages.put(connection, [NewMessage(destination="alerts", lane="x/y", message_id="m", body="{}")])
        await connection.execute(update(outbox).values(error="the webhook answers 404", refused=True))
        late = update(asset).where(asset.c.name == "private")
        await connection.execute(late.values(expect_every_seconds=1, created_at=asset.c.updated_at))
    await older(api, asset, "created_at", asset.c.name == "private")
    await older(api, queued_event, "created_at")


async def older(api: Api, table: Any, column: str, *where: Any) -> None:
    """Move a time of all rows, an hour back."""
    async with api.database.transaction() as connection:
        moment = (await connection.execute(select(table.c[column]).where(*where))).scalars().first()
        assert isinstance(moment, datetime)
        await connection.execute(update(table).where(*where).values({column: moment - HOUR}))


STATES = {
    "fine": {},
    "starts": {"state": "starting"},
    "paused_by_a_person": {"paused": True},
    "at_rest": {"state": "stopped"},
    "failing": {"state": "failing", "error": "gone", "error_count": 2},
    "unstable": {"state": "unstable"},
    "waiting": {"state": "waiting"},
    "unassigned": {"state": "stopped", "error": "no triggerer has room"},
    "given_up": {"paused": True, "error_count": 9},
    "finding": {"findings": json.dumps([{**FINDING, "since": "2026-11-26T00:00:00Z"}])},
}


async def test_only_watchers_that_may_have_a_problem_are_read_for_the_list(api: Api) -> None:
    async with api.database.transaction() as connection:
        one = dict((await connection.execute(select(watcher))).mappings().first() or {})
        usual = {**one, "state": "running", "error": None, "error_count": 0, "findings": None, "paused": False}
        await connection.execute(insert(watcher), [{**usual, "name": name, **row} for name, row in STATES.items()])
    async with api.database.reading() as connection:
        every, few = await watchers.listed(connection), await suspects(connection)
        also = await suspects(connection, ["fine", "no such watcher"])
    wrong = {row.name for row in every if any(of_watcher(row))}
    assert {row.name for row in few} == wrong == STATES.keys() - {"fine", "starts", "paused_by_a_person", "at_rest"}
    assert {row.name for row in also} - wrong == {"fine"}


async def test_a_problem_that_only_its_process_knows_is_in_the_list(api: Api) -> None:
    health = api.context.process.health
    health.watchers["landing_files"] = WatcherReport(state="running")
    assert (health.suspects, await api.get("/api/v2/problems")) == (set(), [])
    health.watchers["landing_files"] = WatcherReport(state="failing", error="gone", error_count=1)
    (problem,) = await api.get("/api/v2/problems")
    assert (problem["kind"], health.suspects) == ("watcher_failing", {"landing_files"})


async def test_each_thing_that_is_wrong_is_listed_once_the_worst_first(api: Api) -> None:
    assert await api.get("/api/v2/problems") == []
    await everything_is_wrong(api)
    problems = await api.get("/api/v2/problems")
    assert [(each["kind"], each["level"], each["count"], each["url"]) for each in problems] == [
        ("watcher_failing", "error", 1, "/watchers/landing_files"),
        ("run_failed", "error", 3, "/runs?state=failed&job=report"),
        ("run_failed", "error", 1, "/runs/report/other"),
        ("waiting_too_long", "error", 1, "/jobs/load_orders"),
        ("watcher_late", "error", 1, "/assets"),
        ("undelivered", "error", 1, "/"),
        ("bad_records", "warning", 1, "/runs/report/bad"),
        ("finding", "warning", 1, "/watchers/landing_files"),
    ]
    of_watcher, of_runs, *_ = problems
    assert of_watcher["message"] == "the watcher landing_files is failing: the bucket is gone"
    assert of_runs["subject"] == {"dag_id": "report", "run_id": "r0"}
    assert of_runs["message"].startswith(
        "the run r0 of report has failed: no memory after 0 s (and 2 more like it: r1, r2)"
    )
    assert of_runs["remedy"].endswith("then run all of them again on the page /runs?state=failed&job=report")
    assert all(each["since"] for each in problems)
    assert all(
        set(each) == {"kind", "level", "subject", "since", "message", "remedy", "next_try_at", "count", "url"}
        for each in problems
    )


async def test_a_watcher_fails_since_the_first_failure_whatever_is_restarted_until_it_works(api: Api) -> None:
    async def since() -> list[str]:
        return [each["since"] for each in await api.get("/api/v2/problems") if each["kind"] == "watcher_failing"]

    await hosted(api)
    await state(api, "failing", "no answer")
    [first] = await since()
    async with api.database.transaction() as connection:
        await watchers.set_stopped(connection, ["landing_files"])
    assert await since() == []
    await state(api, "starting")
    await state(api, "blocked", "another source")
    assert await since() == [first]
    await state(api, "running")
    await state(api, "failing", "no answer")
    assert await since() > [first]


async def test_the_next_try_is_known_where_the_watcher_is_hosted_and_elsewhere(api: Api) -> None:
    await hosted(api)
    report = WatcherReport()
    report.show("failing", "no answer", 1)
    report.retry_at = 10.0**9
    context = adapted(api.context, health=Health(watchers={"landing_files": report}))
    async with serving(context) as client:
        [problem] = (await client.get("/api/v2/problems")).json()
        assert problem["next_try_at"] is not None
    stored = WatcherState(state="failing", error="no answer", error_count=1, next_try_at=report.next_try_at)
    async with api.database.transaction() as connection:
        await watchers.set_states(connection, "t1", {"landing_files": stored})
    [problem] = await api.get("/api/v2/problems")
    assert problem["next_try_at"] is not None


async def test_a_run_that_people_decided_about_is_no_problem_and_one_with_events_never_expires(api: Api) -> None:
    async with api.database.transaction() as connection:
        await runs.create_run(connection, "report", "decided", "load", **ASKED)
        await decisions.settle(connection, "report", "decided", "failed")
    assert await api.get("/api/v2/problems") == []
    await fail(api, "old", "x")
    async with api.database.transaction() as connection:
        long_ago = datetime.fromisoformat("2026-01-01T00:00:00Z")
        await connection.execute(update(run).where(run.c.run_id == "old").values(end_date=long_ago))
    assert await api.get("/api/v2/problems") == []
    async with api.database.transaction() as connection:
        new = [NewEvent(asset_id=api.asset_ids["orders"], extra="{}", trace_id="0" * 32, source_actor="test")]
        [(event_id, _)] = (await events.append(connection, new, origin=EventOrigin.POST, hooks=NO_HOOKS)).rows
        await connection.execute(insert(run_asset_event).values(dag_id="report", event_id=event_id, run_id="old"))
    assert [each["subject"]["run_id"] for each in await api.get("/api/v2/problems")] == ["old"]


async def test_a_finding_that_stops_its_watcher_is_said_once(api: Api) -> None:
    await hosted(api)
    await state(api, "failing", "the clock is 2 h behind; set it", [{**FINDING, "level": "error"}])
    assert [each["kind"] for each in await api.get("/api/v2/problems")] == ["watcher_failing"]


async def test_probes_name_problems_without_values_of_a_source(api: Api) -> None:
    await everything_is_wrong(api)
    warnings = (await api.get("/readyz"))["warnings"]
    assert warnings[:2] == [
        "the watcher landing_files is failing",
        "the run r0 of report has failed (and 2 more like it: r1, r2)",
    ]
    assert len(warnings) == len(await api.get("/api/v2/problems"))
    assert [line for line in warnings if "KeyError" in line or "a.csv" in line or "behind" in line] == []


async def test_more_problems_than_a_probe_names_are_counted(api: Api) -> None:
    reasons = ("disk", "memory", "network", "key", "class", "schema", "table", "column")
    for first in reasons:
        for second in reasons[:5]:
            await fail(api, f"{first}-{second}", f"no {first} for {second}")
    warnings = (await api.get("/readyz"))["warnings"]
    assert (len(warnings), warnings[-1]) == (31, "10 more: `watcher status`")
    async with browsing(api.context) as client:
        browser = Browser(client, api)
        page = await browser.open("/")
        assert "The worst 30 of 40. Show all" in page.text
        assert (await browser.open("/?problems=true")).text.count("a run of report has failed : no ") == 40


@asynccontextmanager
async def served(api: Api) -> AsyncIterator[str]:
    with listen("127.0.0.1", 0) as bound:
        async with anyio.create_task_group() as tasks:
            await tasks.start(partial(serve, create_app(api.context), bound))
            yield f"http://127.0.0.1:{bound.getsockname()[1]}"
            tasks.cancel_scope.cancel()


async def test_status_ends_with_six_while_there_is_an_error_and_says_each_problem(api: Api) -> None:
    async def status(url: str) -> tuple[int, Any]:
        words = [sys.executable, "-m", "watcher", "status", "--json", "--url", url]
        done = await anyio.run_process(words, check=False)
        assert done.stdout, done.stderr
        return done.returncode, json.loads(done.stdout)

    async with served(api) as url:
        code, answer = await status(url)
        assert (code, answer["problems"], answer["warnings"]) == (0, [], [])
        await fail(api, "only", "no memory")
        code, answer = await status(url)
        assert (code, answer["warnings"]) == (6, [])
        assert answer["problems"] == [
            "the run only of report has failed: no memory; correct the cause, then `watcher runs retry report only`"
        ]
        await everything_is_wrong(api)
        code, answer = await status(url)
        assert (code, len(answer["problems"]), len(answer["warnings"])) == (6, 7, 2)


async def test_the_overview_shows_the_list_with_links_and_times(api: Api) -> None:
    await everything_is_wrong(api)
    async with browsing(api.context) as client:
        page = await Browser(client, api).open("/")
    assert "the watcher landing_files is failing : the bucket is gone" in page.text
    assert "3 runs of report have failed : no memory after 0 s" in page.text
    assert "/runs?state=failed&job=report" in page.links
    assert "Nothing needs attention" not in page.text


async def running_since(api: Api, run_id: str, ago: timedelta, dag_id: str = "load_orders") -> None:
    async with api.database.transaction() as connection:
        await runs.create_run(connection, dag_id, run_id, "load", **ASKED)
        started = {"state": "running", "start_date": await now_of(connection) - ago}
        await connection.execute(update(run).where(run.c.run_id == run_id).values(started))


async def defined(api: Api, **keys: Any) -> None:
    definition = JobDefinition.from_json(json.dumps({**DEFINITION, **keys}))
    async with api.database.transaction() as connection:
        changed = update(job_table).where(job_table.c.dag_id == "load_orders")
        await connection.execute(changed.values(definition=definition))


async def test_a_run_that_takes_longer_than_its_job_expects_is_a_problem_until_it_ends(api: Api) -> None:
    await running_since(api, "slow", timedelta(hours=2))
    assert await api.get("/api/v2/problems") == []
    await defined(api, expect_within=3 * 3600)
    assert await api.get("/api/v2/problems") == []
    await defined(api, expect_within=90 * 60)
    (problem,) = await api.get("/api/v2/problems")
    assert (problem["kind"], problem["level"], problem["url"]) == (
        "running_too_long",
        "error",
        "/runs/load_orders/slow",
    )
    assert problem["subject"] == {"dag_id": "load_orders", "run_id": "slow"}
    assert problem["message"].endswith(": it is expected within 90m")
    async with api.database.transaction() as connection:
        await runs.move_run(connection, "load_orders", "slow", "success", reason=None)
    assert await api.get("/api/v2/problems") == []


async def test_a_run_that_takes_ten_times_as_long_as_usual_is_a_hint(api: Api) -> None:
    async with api.database.transaction() as connection:
        now = await now_of(connection)
        for number in range(31):  # the oldest one took a day, and is not of the last 30
            took = timedelta(days=1) if number == 0 else timedelta(minutes=9 + number % 3)
            await runs.create_run(connection, "load_orders", f"r{number}", "load", **ASKED)
            times = {"state": "success", "start_date": now - took, "end_date": now}
            await connection.execute(update(run).where(run.c.run_id == f"r{number}").values(times))
    await running_since(api, "slow", timedelta(minutes=95))
    assert await api.get("/api/v2/problems") == []
    await running_since(api, "slower", timedelta(minutes=105))
    (hint,) = await api.get("/api/v2/problems")
    assert (hint["kind"], hint["level"]) == ("running_too_long", "info")
    assert hint["subject"]["run_id"] == "slower"
    assert hint["message"].endswith(": its runs usually take 10m")


async def test_a_deadline_counts_events_that_wait_behind_a_run(api: Api) -> None:
    await defined(api, deadline=60)
    async with api.database.transaction() as connection:
        new = [
            NewEvent(asset_id=api.asset_ids[name], extra="{}", trace_id="0" * 32, source_actor="test")
            for name in ("landing", "customers")
        ]
        await events.append(connection, new, origin=EventOrigin.POST, hooks=NO_HOOKS)
    await older(api, queued_event, "created_at")
    assert [each["kind"] for each in await api.get("/api/v2/problems")] == []
    await running_since(api, "ahead", timedelta(minutes=5))
    (problem,) = await api.get("/api/v2/problems")
    assert (problem["kind"], problem["subject"]) == ("waiting_too_long", {"dag_id": "load_orders"})
    assert "behind the run ahead, running since " in problem["message"]
