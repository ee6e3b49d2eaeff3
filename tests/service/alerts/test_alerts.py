"""Alerts about a real database reach a real web server and a real mail server, once for each change."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio import BrokenResourceError, EndOfStream
from anyio.abc import SocketAttribute, SocketStream
from prometheus_client import generate_latest
from sqlalchemy import update

from config.features.alerts.settings import AlertsPart
from store.catalog import catalog_sync, watchers
from store.catalog.catalog_sync import Declared, DeclaredAsset, DeclaredJob, DeclaredWatcher
from store.database import Database
from store.database.asset_events import NewEvent
from store.database.paging import now_of
from store.database.schema import asset, job, queued_event, run
from store.detection import events
from store.detection.interest import NO_HOOKS, EventOrigin
from store.features.alerts.tables import alert
from store.features.outbox.tables import outbox
from store.keys import ClockDeadline, CronSchedule, JobDefinition
from store.runs import runs
from store.runs.actions import decisions
from store.runs.tries import bad_records
from tests.databases import on_both, statements_of
from tests.effort import PATIENCE
from tests.receivers import Hook, Mailbox, mail_server, write_certificate
from tests.service.store.words import rows
from watcher.configuration.declarations import planners
from watcher.features.alerts.delivery import Alerts
from watcher.features.alerts.evaluator import Evaluator
from watcher.features.outbox.problems import problems as outbox_problems
from watcher.features.outbox.sender import Sender
from watcher.features.problems import reading
from watcher.host.leader_election import Leadership
from watcher.host.metrics import Metrics
from watcher.installed import known_settings
from watcher.scheduling.problems.sources import ProblemsLook, read_problems

pytestmark = [pytest.mark.service, on_both]
HOME = "66666666-6666-6666-6666-666666666666"
AGES = timedelta(days=1)
BOTH = {"schedule": {"all": ["landing", "customers"]}, "deadline": 7200}
DECLARED = Declared(
    hash="h",
    assets=[
        DeclaredAsset(name=name, uri=f"x://{name}", group="asset", extra="{}", expect_every_seconds=every)
        for name, every in (("landing", None), ("customers", None), ("orders", 3600))
    ],
    watchers=[DeclaredWatcher(name="landing_files", asset="landing", trigger="file.new_files")],
    jobs=[
        DeclaredJob(
            dag_id="load",
            task_id="load",
            definition=JobDefinition.from_json(json.dumps(BOTH)),
            paused=False,
            assets={"schedule": {"landing", "customers"}},
        )
    ],
)


READERS = [reading.problems, outbox_problems]


class World:
    """A leader that checks for alerts when a test calls `look`, and sends them."""

    def __init__(self, database: Database, leadership: Leadership, entries: list[dict[str, Any]]):
        settings = known_settings(()).model.model_validate({"alerts": entries, "api": {"base_url": "http://watcher"}})
        self.database, self.metrics = database, Metrics()
        self.target = Alerts.of(settings.part(AlertsPart).alerts, self.metrics)
        self.sender = Sender(database=database, leadership=leadership, destinations=[self.target])
        self.planners = planners()
        self.evaluator = Evaluator.of(
            settings,
            database,
            leadership,
            on_alerts=self.sender.wake,
            problems_of=READERS,
            planners=self.planners,
        )
        self.asset_ids: dict[str, int] = {}

    async def look(self) -> None:
        await self.evaluator.look()

    async def watcher_is(self, state: str, error: str | None) -> None:
        async with self.database.transaction() as connection:
            await watchers.set_state(connection, "landing_files", state, error=error, error_count=3)
        await self.look()

    async def undelivered(self, sentence: str) -> None:
        """Wait until a problem says this of an alert that does not arrive."""
        with anyio.fail_after(PATIENCE):
            while True:
                async with self.database.reading() as connection:
                    now = await now_of(connection)
                    look = ProblemsLook(connection=connection, now=now, planners=self.planners)
                    problems = await read_problems(look, READERS)
                if any(each.kind == "undelivered" and sentence in each.message for each in problems):
                    return
                await anyio.sleep(0.02)

    async def fail_run(self, run_id: str, reason: str) -> None:
        async with self.database.transaction() as connection:
            asked = {"triggered_by": "test", "conf": "{}", "note": None}
            await runs.create_run(connection, "load", run_id, "load", **asked)
            await runs.move_run(connection, "load", run_id, "failed", reason=reason)


@asynccontextmanager
async def alerting(database: Database, *entries: dict[str, Any]) -> AsyncIterator[World]:
    leadership = Leadership(database=database, owner=HOME, heartbeat=AGES, lease=AGES, on_taken=lambda: None)
    async with database.transaction() as connection:
        applied = await catalog_sync.apply(connection, DECLARED, database.dialect)
    await leadership.campaign()
    world = World(database, leadership, list(entries))
    world.asset_ids = dict(applied.asset_ids)
    async with anyio.create_task_group() as tasks:
        await tasks.start(world.sender.run)
        await world.look()
        yield world
        tasks.cancel_scope.cancel()


async def until(condition: Callable[[], bool]) -> None:
    with anyio.fail_after(PATIENCE):
        while not condition():
            await anyio.sleep(0.02)


async def everything_is_sent(database: Database) -> None:
    """Wait until the task that sends alerts has sent everything."""
    with anyio.fail_after(PATIENCE):
        while await rows(database, outbox):
            await anyio.sleep(0.02)


async def test_a_failing_watcher_is_alerted_once_when_it_begins_and_once_when_it_ends(
    database: Database, hook: Hook
) -> None:
    target = {"url": hook.url, "headers": {"Authorization": "Bearer s3cret"}}
    async with alerting(database, {"on": ["watcher_failing"], "to": {"webhook": target}}) as world:
        await world.watcher_is("failing", "the bucket is gone")
        await world.watcher_is("failing", "the bucket is still gone")
        await until(lambda: len(hook.bodies) == 1)
        await world.watcher_is("running", None)
        await until(lambda: len(hook.bodies) == 2)
        await world.look()
        assert await rows(database, alert) == []
    firing, resolved = hook.bodies
    assert {**firing, "id": "", "since": ""} == {
        "id": "",
        "alert": "watcher_failing",
        "state": "firing",
        "since": "",
        "subject": {"watcher": "landing_files"},
        "message": "the watcher landing_files is failing: the bucket is gone",
        "url": "http://watcher/watchers/landing_files",
    }
    assert (resolved["state"], resolved["subject"]) == ("resolved", firing["subject"])
    assert resolved["id"] != firing["id"]
    assert hook.headers[0]["Authorization"] == "Bearer s3cret"
    assert 'watcher_alerts_total{result="sent"} 2.0' in generate_latest(world.metrics.registry).decode()


async def test_bad_records_are_alerted_until_a_person_resolves_them(database: Database, hook: Hook) -> None:
    async with alerting(database, {"on": ["bad_records"], "to": {"webhook": {"url": hook.url}}}) as world:
        async with database.transaction() as connection:
            await runs.create_run(connection, "load", "r1", "load", triggered_by="test", conf="{}", note=None)
            await bad_records.note(connection, "load", "r1", 2)
            await runs.move_run(connection, "load", "r1", "success", reason="2 of a.csv")
        await world.look()
        await world.look()
        await until(lambda: len(hook.bodies) == 1)
        async with database.transaction() as connection:
            await bad_records.resolve(connection, "load", "r1")
        await world.look()
        await until(lambda: len(hook.bodies) == 2)
    firing, resolved = hook.bodies
    assert (firing["alert"], firing["state"], resolved["state"]) == ("bad_records", "firing", "resolved")
    assert firing["subject"] == {"dag_id": "load", "run_id": "r1"}
    assert firing["message"].startswith("the run r1 of load has left out 2 bad records: 2 of a.csv")


async def test_a_server_that_was_down_gets_the_alert_later_with_the_same_id(database: Database, hook: Hook) -> None:
    hook.statuses = [503, 404]
    async with alerting(database, {"on": ["watcher_failing"], "to": {"webhook": {"url": hook.url}}}) as world:
        await world.watcher_is("failing", "x")
        await until(lambda: len(hook.bodies) == 3)
    assert len({body["id"] for body in hook.bodies}) == 1


@asynccontextmanager
async def answering_for_ever(beginning: bytes, then: bytes) -> AsyncIterator[dict[str, Any]]:
    """A webhook that accepts the request and sends its answer a little at a time, without an end."""

    async def answer(stream: SocketStream) -> None:
        with suppress(BrokenResourceError, EndOfStream):
            async with stream:
                await stream.receive()
                await stream.send(beginning)
                while True:
                    await stream.send(then)
                    await anyio.sleep(0.02)

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(SocketAttribute.local_port)  # noqa: S610  no Django
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, answer)
        yield {"on": ["watcher_failing"], "to": {"webhook": {"url": f"http://127.0.0.1:{port}/"}}}
        tasks.cancel_scope.cancel()


async def test_an_alert_is_delivered_once_the_headers_say_so_however_long_the_answer_continues(
    database: Database,
) -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    async with answering_for_ever(head, b"1\r\n.\r\n") as entry, alerting(database, entry) as world:
        await world.watcher_is("failing", "x")
        await everything_is_sent(database)


async def test_a_webhook_that_never_completes_its_headers_is_abandoned_in_time(database: Database) -> None:
    async with (
        answering_for_ever(b"HTTP/1.1 200 OK\r\nX: ", b".") as entry,
        alerting(database, entry) as world,
    ):
        world.target.timeout = timedelta(seconds=0.5)
        await world.watcher_is("failing", "x")
        await world.undelivered("the webhook at 127.0.0.1 did not answer in time")


@pytest.mark.parametrize(
    ("to", "sentence"),
    [
        ({"webhook": {"headers": {"X": "schlüssel"}}}, "hold what HTTP cannot send"),
        ({"webhook": {"headers": {"X": "a\n"}}}, "hold what HTTP cannot send"),
        ({"smtp": {"host": "mail..example.com", "from": "a@b.c", "to": ["a@b.c"]}}, "correct host"),
    ],
)
async def test_an_alert_that_can_never_be_sent_names_what_to_correct(
    database: Database, hook: Hook, to: dict[str, Any], sentence: str
) -> None:
    target = {kind: {"url": hook.url, **options} if kind == "webhook" else options for kind, options in to.items()}
    async with alerting(database, {"on": ["watcher_failing"], "to": target}) as world:
        await world.watcher_is("failing", "x")
        await world.undelivered(sentence)


async def test_a_new_leader_sends_no_alert_twice(database: Database, hook: Hook) -> None:
    entry = {"on": ["watcher_failing"], "to": {"webhook": {"url": hook.url}}}
    async with alerting(database, entry) as world:
        await world.watcher_is("failing", "x")
        with anyio.fail_after(PATIENCE):
            while await rows(database, outbox):  # otherwise the next leader cannot know that it has arrived
                await anyio.sleep(0.02)
    async with alerting(database, entry) as world:
        await world.look()
        await world.watcher_is("running", None)
        await until(lambda: len(hook.bodies) == 2)
    assert [body["state"] for body in hook.bodies] == ["firing", "resolved"]


async def test_a_template_makes_the_message_that_a_chat_expects(database: Database, hook: Hook) -> None:
    template = '{"text": {{ (state ~ ": " ~ message) | tojson }}, "of": "{{ subject.watcher }}"}'
    target = {"webhook": {"url": hook.url, "template": template}}
    async with alerting(database, {"on": ["watcher_failing"], "to": target}) as world:
        await world.watcher_is("failing", 'a "quoted" word')
        await until(lambda: len(hook.bodies) == 1)
    text = 'firing: the watcher landing_files is failing: a "quoted" word'
    assert hook.bodies == [{"text": text, "of": "landing_files"}]


async def test_a_failed_run_is_mailed_and_one_that_a_person_ended_is_not(database: Database, mailbox: Mailbox) -> None:
    mailbox.answers = ["451 later"]
    async with alerting(database, {"on": ["run_failed"], "to": by_mail(mailbox, starttls=False)}) as world:
        await world.fail_run("by_itself", "KeyError: 'id'\n(load.py line 4)")
        async with database.transaction() as connection:
            asked = {"triggered_by": "test", "conf": "{}", "note": None}
            await runs.create_run(connection, "load", "by_a_person", "load", **asked)
            await decisions.settle(connection, "load", "by_a_person", "failed")
        await world.look()
        await until(lambda: len(mailbox.mails) == 1)
        async with database.transaction() as connection:
            await decisions.clear(connection, "load", "by_itself")
        await world.look()
        await until(lambda: len(mailbox.mails) == 2)
    firing, resolved = mailbox.mails
    subject = " ".join(str(firing["Subject"]).split())
    assert subject == "[firing] the run by_itself of load has failed: KeyError: 'id' (load.py line 4)"
    assert mailbox.recipients[:2] == ["ops@example.com", "me@example.com"]
    assert firing["Message-ID"] != resolved["Message-ID"]
    assert resolved["Subject"].startswith("[resolved]")
    assert "http://watcher/runs/load/by_itself" in str(firing.get_payload())


def by_mail(mailbox: Mailbox, **more: Any) -> dict[str, Any]:
    smtp = {"host": "127.0.0.1", "port": mailbox.port, "from": "watcher@example.com"}
    return {"smtp": {**smtp, "to": ["ops@example.com", "me@example.com"], **more}}


async def test_mail_goes_over_tls_to_a_server_whose_certificate_is_right_and_waits_for_one(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate = write_certificate(tmp_path / "certificate.pem")
    with mail_server(certificate) as mailbox:
        async with alerting(database, {"on": ["watcher_failing"], "to": by_mail(mailbox)}) as world:
            await world.watcher_is("failing", "the bucket is gone")
            with anyio.fail_after(PATIENCE):
                while not (waiting := await rows(database, outbox)) or waiting[0]["error"] is None:
                    await anyio.sleep(0.02)
            assert "SSLCertVerificationError" in waiting[0]["error"]
            assert mailbox.mails == []
            monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
            await until(lambda: len(mailbox.mails) == 1)
    assert mailbox.encrypted == [True]


async def test_a_check_without_news_writes_nothing_and_costs_the_same_for_any_number_of_failed_runs(
    database: Database, hook: Hook
) -> None:
    async with alerting(database, {"on": ["run_failed"], "to": {"webhook": {"url": hook.url}}}) as world:
        sent = []
        for run_ids in (["one"], ["two", "three", "four"]):
            for run_id in run_ids:
                await world.fail_run(run_id, "no memory")
            await world.look()
            await everything_is_sent(database)
            with statements_of(database) as look:
                await world.look()
            # The sender polls the outbox at the same time.
            sent.append([statement for statement, _ in look if "outbox" not in statement])
    assert len(sent[0]) == len(sent[1]) > 0
    assert [statement for statement in sent[1] if statement.startswith(("INSERT", "UPDATE", "DELETE"))] == []


async def test_runs_that_failed_before_the_rule_existed_are_not_alerted(database: Database, hook: Hook) -> None:
    entry = {"on": ["run_failed", "watcher_late"], "jobs": ["load"], "to": {"webhook": {"url": hook.url}}}
    async with alerting(database, entry) as world:
        await world.fail_run("old", "x")
        [row] = await rows(database, run)
        async with database.transaction() as connection:
            await connection.execute(update(run).values(end_date=row["end_date"] - timedelta(hours=1)))
        await world.look()
        assert await rows(database, alert) == []
        assert hook.bodies == []


async def test_a_missed_deadline_names_the_missing_asset(database: Database, hook: Hook) -> None:
    entry = {"on": ["waiting_too_long"], "assets": ["customers"], "to": {"webhook": {"url": hook.url}}}
    async with alerting(database, entry) as world:
        async with database.transaction() as connection:
            new = [NewEvent(asset_id=world.asset_ids["landing"], extra="{}", trace_id="0" * 32, source_actor="test")]
            await events.append(connection, new, origin=EventOrigin.POST, hooks=NO_HOOKS)
        await world.look()
        assert await rows(database, alert) == []
        [row] = await rows(database, queued_event)
        async with database.transaction() as connection:
            created_at = row["created_at"] - timedelta(hours=3)
            await connection.execute(update(queued_event).values(created_at=created_at))
        await world.look()
        await until(lambda: len(hook.bodies) == 1)
    [body] = hook.bodies
    assert body["message"].startswith("`customers` has not come since ")
    assert (body["subject"], body["url"]) == ({"dag_id": "load"}, "http://watcher/jobs/load")


async def test_what_has_not_come_by_its_time_of_the_day_is_late_until_it_comes(database: Database, hook: Hook) -> None:
    due_by = ClockDeadline(cron=CronSchedule(expression="0 7 * * *", timezone="UTC"), since=timedelta(hours=24))
    (load,) = DECLARED.jobs
    due = replace(
        DECLARED,
        jobs=[replace(load, definition=replace(load.definition, deadline=None, due_by=due_by))],
        assets=[replace(each, expect_every_seconds=None, expect_by=due_by.to_json()) for each in DECLARED.assets[:1]]
        + [replace(each, expect_every_seconds=None) for each in DECLARED.assets[1:]],
    )
    async with alerting(database, {"on": ["late"], "to": {"webhook": {"url": hook.url}}}) as world:
        async with database.transaction() as connection:
            await catalog_sync.apply(connection, due, database.dialect)
        await world.look()
        assert await rows(database, alert) == []  # they are new
        async with database.transaction() as connection:
            now = await now_of(connection)
            for table in (job, asset):
                await connection.execute(update(table).values(created_at=now - timedelta(days=9)))
            for run_id, days in (("cleared", 8), ("newest", 6)):
                asked = {"triggered_by": "test", "conf": "{}", "note": None}
                await runs.create_run(connection, "load", run_id, "load", **asked)
                ended = {"state": "success", "end_date": now - timedelta(days=days)}
                await connection.execute(update(run).where(run.c.run_id == run_id).values(ended))
        await world.look()
        await until(lambda: len(hook.bodies) == 2)
        subjects = {json.dumps(body["subject"]): body for body in hook.bodies}
        first = (now - timedelta(days=5)).replace(hour=7, minute=0, second=0, microsecond=0)
        first += timedelta(days=(now - timedelta(days=5)) > first)
        assert "no run of load has succeeded in the 1d before " in subjects['{"dag_id": "load"}']["message"]
        assert subjects['{"dag_id": "load"}']["since"] == first.isoformat()
        assert "`landing` has not come in the 1d before " in subjects['{"asset": "landing"}']["message"]
        async with database.transaction() as connection:
            # An older run was cleared, and has succeeded now.
            await connection.execute(update(run).where(run.c.run_id == "cleared").values(end_date=now))
            new = [NewEvent(asset_id=world.asset_ids["landing"], extra="{}", trace_id="0" * 32, source_actor="test")]
            await events.append(connection, new, origin=EventOrigin.POST, hooks=NO_HOOKS)
        await world.look()
        await until(lambda: len(hook.bodies) == 4)
        assert [body["state"] for body in hook.bodies] == ["firing", "firing", "resolved", "resolved"]
