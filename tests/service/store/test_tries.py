"""Tries: one intent, one claimer, one finish, one end; and nothing for whom has been superseded."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import anyio
import pytest
from sqlalchemy import insert, update

from store.database import Database
from store.database.schema import database_now, database_time_in, job, run, task_instance, task_try
from store.errors import NotFound, TryFenced
from store.keys import JobDefinition, TaskInstanceKey, TryKey, TryRef
from store.runs import runs
from store.runs.tries import forgetting, renewals, tries, try_lookup
from store.runs.tries.startable import Startable, next_startable
from store.runs.tries.try_lookup import OpenTry
from tests.service.queued_tasks import queued_task_of
from tests.service.store.words import apply, declared, rows, until_somebody_waits

HOME = "home"


@pytest.fixture
async def task(database: Database) -> Startable:
    """A queued run of the job `load`."""
    return await queued_task(database)


async def queued_task(database: Database, run_id: str = "r1") -> Startable:
    await apply(database, declared(assets={}, jobs={"load": []}))
    async with database.transaction() as session:
        await runs.create_run(session, "load", run_id, "load", triggered_by="cli", conf="{}", note=None)
        task = await queued_task_of(session, run_id)
    assert task is not None
    return task


async def startable(database: Database) -> list[Startable]:
    async with database.reading() as session:
        return list(await next_startable(session))


async def intend(database: Database, task: Startable, home: str = HOME) -> bool:
    tag = f"run-{task.key.task_instance_id}-{task.key.try_number}"
    async with database.transaction() as session:
        intended = await tries.commit_intent(session, task, home_id=home, tag=tag, token_hash="h")
    return intended is not None


async def opened(database: Database, task: Startable, number: int = 1) -> OpenTry | None:
    async with database.reading() as session:
        return await try_lookup.open_try(session, replace(task.key, try_number=number))


async def fence(database: Database, task: Startable, number: int = 1) -> TryKey:
    async with database.transaction() as session:
        return await tries.fence(session, TryRef(task_instance_id=task.key.task_instance_id, try_number=number))


async def claim(database: Database, task: Startable, nonce: str = "n", number: int = 1) -> TryKey:
    async with database.transaction() as session:
        return await tries.claim(session, TryRef(task_instance_id=task.key.task_instance_id, try_number=number), nonce)


async def finish(
    database: Database, task: Startable, state: str, number: int = 1, message: str | None = None
) -> tries.FinishedTry | None:
    async with database.transaction() as session:
        return await tries.finish(
            session,
            TryRef(task_instance_id=task.key.task_instance_id, try_number=number),
            finish_state=state,
            message=message,
        )


async def end(
    database: Database,
    task: Startable,
    state: str,
    run_state: str,
    *,
    number: int = 1,
    open_try: OpenTry | None = None,
    **how: Any,
) -> None:
    open_try = open_try or await opened(database, task, number)
    assert open_try is not None
    given = {"exit_code": 1, "reason": None, "warning": None, "retry_in": None, **how}
    async with database.transaction() as session:
        await tries.end(session, open_try, state=state, run_state=run_state, **given)


async def states(database: Database) -> tuple[str, str]:
    """The states of the task instance and of the run."""
    (instance,) = await rows(database, task_instance)
    (made,) = await rows(database, run)
    return instance["state"], made["state"]


# --- what may start


async def test_queued_task_instances_may_start_oldest_run_first(database: Database) -> None:
    first, second = await queued_task(database, "r2"), await queued_task(database, "r1")
    assert await startable(database) == [first], "the job may have one run at a time"
    assert await intend(database, first)
    assert await startable(database) == []
    await end(database, first, "failed", "failed")
    assert await startable(database) == [second]
    assert (first.run_state, first.key.try_number, first.definition) == ("queued", 1, JobDefinition())


async def test_paused_removed_and_foreign_jobs_and_ended_runs_do_not_start(database: Database) -> None:
    await queued_task(database)
    for table, hidden, shown in (
        (job, {"paused": True}, {"paused": False}),
        (job, {"active": False}, {"active": True}),
        (task_instance, {"origin": "foreign"}, {"origin": "own"}),
        (task_instance, {"state": "running"}, {"state": "queued"}),
        (run, {"state": "failed"}, {"state": "running"}),
    ):
        async with database.transaction() as session:
            await session.execute(update(table).values(hidden))
        assert await startable(database) == []
        async with database.transaction() as session:
            await session.execute(update(table).values(shown))
        assert len(await startable(database)) == 1


# --- the intent


async def test_an_intent_makes_the_next_try_and_sets_the_run_running(database: Database, task: Startable) -> None:
    assert await intend(database, task)
    assert await startable(database) == []
    (made,) = await rows(database, task_try)
    assert (made["try_number"], made["home_id"], made["token_hash"], made["handle"]) == (1, HOME, "h", None)
    (instance,) = await rows(database, task_instance)
    assert (instance["try_number"], instance["state"], instance["detail"]) == (1, "queued", "submitting")
    assert await states(database) == ("queued", "running")


async def test_of_many_intents_at_once_exactly_one_is_committed(database: Database, task: Startable) -> None:
    won: list[bool] = []

    async def try_it(number: int) -> None:
        won.append(await intend(database, task, home=f"home{number}"))

    async with anyio.create_task_group() as tasks:
        for number in range(8):
            tasks.start_soon(try_it, number)
    assert sorted(won) == [False] * 7 + [True]
    assert len(await rows(database, task_try)) == 1


async def test_no_second_try_is_intended_while_the_first_lives(database: Database, task: Startable) -> None:
    await intend(database, task)
    assert not await intend(database, replace(task, key=replace(task.key, try_number=2)))


async def test_no_try_is_intended_for_an_instance_that_moved_on(database: Database, task: Startable) -> None:
    async with database.transaction() as session:
        await session.execute(update(task_instance).values(state="failed"))
    assert not await intend(database, task)
    assert await rows(database, task_try) == []


# --- open tries


async def test_a_home_finds_its_own_open_tries_oldest_first(database: Database) -> None:
    first, second, other = [await queued_task(database, name) for name in ("r2", "r1", "r3")]
    await intend(database, first)
    await intend(database, second)
    await intend(database, other, home="elsewhere")
    async with database.reading() as session:
        found = await try_lookup.open_tries(session, HOME)
    assert [one.key.instance.run_id for one in found] == ["r2", "r1"]
    assert (found[0].handle, found[0].claimed, found[0].age_seconds) == (None, False, 0.0)
    await end(database, first, "failed", "failed")
    async with database.reading() as session:
        assert [one.key.instance.run_id for one in await try_lookup.open_tries(session, HOME)] == ["r1"]


async def test_a_stored_handle_leads_back_and_sets_the_instance_running(database: Database, task: Startable) -> None:
    await intend(database, task)
    async with database.transaction() as session:
        open_try = await try_lookup.open_try(session, task.key)
        assert open_try is not None
        assert await tries.store_handle(session, open_try, '{"pid": 1}')
        assert await tries.replace_token(session, open_try, "h2")
    found = await opened(database, task)
    assert found is not None
    assert found.handle == '{"pid": 1}'
    assert found.age_seconds >= 0
    assert await states(database) == ("running", "running")
    assert (await rows(database, task_try))[0]["token_hash"] == "h2"


async def test_the_submitter_of_the_intent_is_the_one_of_the_jobs_definition(
    database: Database, task: Startable
) -> None:
    elsewhere = replace(task, definition=replace(task.definition, submitter="lake.Remote"))
    await intend(database, elsewhere)
    open_try = await opened(database, task)
    assert open_try is not None
    assert (open_try.submitter, open_try.home_id) == ("lake.Remote", HOME)
    async with database.transaction() as session:
        assert await try_lookup.stored_handle(session, task.key.instance, 1) is None
        await tries.store_handle(session, open_try, '{"pid": 1}')
        assert await try_lookup.stored_handle(session, task.key.instance, 1) == ("lake.Remote", '{"pid": 1}')


async def test_a_home_that_a_try_was_taken_from_can_change_nothing_of_it(database: Database, task: Startable) -> None:
    await intend(database, task)
    before = await opened(database, task)
    assert before is not None
    async with database.transaction() as session:
        assert await tries.take_over(session, before, "other") == replace(before, home_id="other")
    async with database.transaction() as session:
        assert await tries.take_over(session, before, "third") is None
        assert not await tries.store_handle(session, before, "{}")
        assert not await tries.replace_token(session, before, "h2")
        assert await try_lookup.taken_over(session, HOME, [before.tag]) == {before.tag}
        assert await try_lookup.taken_over(session, "other", [before.tag]) == frozenset()
        assert await try_lookup.open_tries(session, HOME) == []
    after = await opened(database, task)
    assert after is not None
    assert replace(after, now=before.now) == replace(before, home_id="other")


# --- the claim


async def test_the_first_claimer_has_the_try_and_may_ask_again(database: Database, task: Startable) -> None:
    await intend(database, task)
    held = await claim(database, task, "first")
    instance = TaskInstanceKey(dag_id="load", run_id="r1", task_id="load")
    assert held == TryKey(instance=instance, task_instance_id=task.key.task_instance_id, try_number=1)
    assert await claim(database, task, "first") == held
    assert await states(database) == ("running", "running")
    with pytest.raises(TryFenced, match="claimed by another process; end this one"):
        await claim(database, task, "second")
    found = await opened(database, task)
    assert found is not None
    assert found.claimed


async def test_of_many_claimers_at_once_exactly_one_gets_the_try(database: Database, task: Startable) -> None:
    await intend(database, task)
    won: list[str] = []

    async def try_it(nonce: str) -> None:
        try:
            await claim(database, task, nonce)
        except TryFenced:
            return
        won.append(nonce)

    async with anyio.create_task_group() as tasks:
        for number in range(8):
            tasks.start_soon(try_it, f"n{number}")
    assert won == [(await rows(database, task_try))[0]["nonce"]]


async def test_claiming_while_the_handle_is_stored_does_not_deadlock(database: Database) -> None:
    for turn in range(8):
        task = await queued_task(database, f"r{turn}")
        await intend(database, task)

        async def store_handle(task: Startable) -> None:
            open_try = await opened(database, task)
            assert open_try is not None
            async with database.transaction() as session:
                assert await tries.store_handle(session, open_try, "{}")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(store_handle, task)
            tasks.start_soon(claim, database, task)


# --- the fence

Step = Callable[[Database, Startable], Awaitable[Any]]


async def superseded(database: Database, task: Startable) -> None:
    await end(database, task, "up_for_retry", "running", retry_in=0)
    (again,) = await startable(database)
    assert await intend(database, again)


async def retried_later(database: Database, task: Startable) -> None:
    await end(database, task, "up_for_retry", "running", retry_in=3600)


async def cleared(database: Database, task: Startable) -> None:
    """Queued again, with no next try yet."""
    await end(database, task, "failed", "failed")
    async with database.transaction() as session:
        await session.execute(update(task_instance).values(state="queued"))


async def finished(database: Database, task: Startable) -> None:
    await finish(database, task, "success")


async def said_it_failed(database: Database, task: Startable) -> None:
    await finish(database, task, "failed")


async def cancelled(database: Database, _task: Startable) -> None:
    async with database.transaction() as session:
        await session.execute(update(task_instance).values(state="failed"))


@pytest.mark.parametrize("step", [superseded, retried_later, cleared, finished, said_it_failed, cancelled])
async def test_a_try_that_is_over_may_do_nothing(database: Database, task: Startable, step: Step) -> None:
    await intend(database, task)
    await claim(database, task)
    await fence(database, task)
    await step(database, task)
    before = (await rows(database, task_instance), await rows(database, task_try), await rows(database, run))
    for act in (fence(database, task), claim(database, task), finish(database, task, "skipped")):
        with pytest.raises(TryFenced, match="end this process"):
            await act
    assert (await rows(database, task_instance), await rows(database, task_try), await rows(database, run)) == before


async def test_a_try_from_the_future_may_do_nothing(database: Database, task: Startable) -> None:
    await intend(database, task)
    with pytest.raises(TryFenced):
        await fence(database, task, number=2)


async def test_an_unknown_task_instance_is_not_found(database: Database, task: Startable) -> None:
    with pytest.raises(NotFound, match="does not exist any more; end this process"):
        await fence(database, replace(task, key=replace(task.key, task_instance_id="unknown")))


async def test_a_task_of_the_neighbouring_airflow_passes_the_fence_without_a_try_of_ours(database: Database) -> None:
    instance = {"id": "x", "dag_id": "theirs", "run_id": "r", "task_id": "t", "try_number": 1, "state": "running"}
    async with database.transaction() as session:
        await session.execute(insert(task_instance).values(origin="foreign", **instance))
        assert (await tries.fence(session, TryRef(task_instance_id="x", try_number=1))).dag_id == "theirs"


async def test_a_fenced_writer_and_the_next_intent_wait_for_each_other(postgres: Database) -> None:
    """What passed the fence is committed before the next try can begin."""
    task = await queued_task(postgres)
    await intend(postgres, task)
    order: list[str] = []

    async def cancel() -> None:
        async with postgres.transaction() as session:
            await session.execute(update(task_instance).values(state="failed"))
            order.append("cancelled")

    async with anyio.create_task_group() as tasks, postgres.transaction() as session:
        await tries.fence(session, TryRef(task_instance_id=task.key.task_instance_id, try_number=1))
        tasks.start_soon(cancel)
        await until_somebody_waits(postgres)
        order.append("written")
    assert order == ["written", "cancelled"]


# --- the finish


@pytest.mark.parametrize(("state", "final"), [("success", "success"), ("skipped", "skipped")])
async def test_success_and_skip_are_final_at_once(database: Database, task: Startable, state: str, final: str) -> None:
    await intend(database, task)
    await claim(database, task)
    assert await finish(database, task, state, message="done") is not None
    assert await states(database) == (final, "success")
    (instance,) = await rows(database, task_instance)
    assert (instance["detail"], instance["end_date"] is not None) == ("done", True)


async def test_a_failure_waits_for_the_end_of_the_process(database: Database, task: Startable) -> None:
    await intend(database, task)
    await claim(database, task)
    assert await finish(database, task, "failed", message="no such file") is not None
    assert await states(database) == ("running", "running")
    assert await startable(database) == []
    found = await opened(database, task)
    assert found is not None
    assert (found.finish_state, found.message) == ("failed", "no such file")


@pytest.mark.parametrize("state", ["success", "skipped", "failed"])
async def test_the_same_finish_again_is_the_same_finish(database: Database, task: Startable, state: str) -> None:
    await intend(database, task)
    await finish(database, task, state)
    before = await rows(database, task_instance)
    assert await finish(database, task, state) is None
    assert await rows(database, task_instance) == before


async def test_of_two_finishes_at_once_one_counts(database: Database, task: Startable) -> None:
    await intend(database, task)
    outcomes: list[bool] = []

    async def try_it() -> None:
        outcomes.append(await finish(database, task, "success") is not None)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(try_it)
        tasks.start_soon(try_it)
    assert sorted(outcomes) == [False, True]


# --- the end


async def test_an_accepted_success_is_final_whatever_the_process_does_then(database: Database, task: Startable) -> None:
    await intend(database, task)
    await finish(database, task, "success", message="done")
    await end(database, task, "failed", "failed", exit_code=1, reason="it crashed", warning="exit 1 after success")
    assert await states(database) == ("success", "success")
    (made,) = await rows(database, run)
    assert made["warning"] == "exit 1 after success"
    (ended,) = await rows(database, task_try)
    assert (ended["exit_code"], ended["message"], ended["ended_at"] is not None) == (1, "done", True)


async def test_a_retry_is_due_when_its_delay_has_passed_by_the_databases_clock(
    database: Database, task: Startable
) -> None:
    await intend(database, task)
    await end(database, task, "up_for_retry", "running", reason="it crashed", retry_in=3600)
    assert await states(database) == ("up_for_retry", "running")
    (instance,) = await rows(database, task_instance)
    (ended,) = await rows(database, task_try)
    assert instance["not_before"] - ended["ended_at"] == timedelta(seconds=3600)
    assert (instance["detail"], ended["message"]) == ("it crashed", "it crashed")
    assert await startable(database) == []
    assert not await intend(database, replace(task, key=replace(task.key, try_number=2)))
    async with database.transaction() as session:
        await session.execute(update(task_instance).values(not_before=database_now()))
    (again,) = await startable(database)
    assert again.key.try_number == 2
    assert await intend(database, again)
    (instance,) = await rows(database, task_instance)
    assert (instance["try_number"], instance["state"], instance["not_before"]) == (2, "queued", None)


async def test_the_last_failure_ends_the_run(database: Database, task: Startable) -> None:
    await intend(database, task)
    await end(database, task, "failed", "failed", reason="it crashed")
    assert await states(database) == ("failed", "failed")
    (made,) = await rows(database, run)
    assert (made["reason"], made["end_date"] is not None) == ("it crashed", True)


async def test_the_jobs_own_report_outlives_the_end(database: Database, task: Startable) -> None:
    """This holds also if the report came after the dispatcher had checked."""
    await intend(database, task)
    stale = await opened(database, task)
    await finish(database, task, "failed", message="no such file")
    await end(database, task, "failed", "failed", open_try=stale, reason="exit 1")
    assert (await rows(database, task_try))[0]["message"] == "no such file"


async def test_a_try_ends_once(database: Database, task: Startable) -> None:
    await intend(database, task)
    stale = await opened(database, task)
    await cleared(database, task)
    before = (await rows(database, task_instance), await rows(database, task_try), await rows(database, run))
    await end(database, task, "failed", "failed", open_try=stale, reason="again", warning="again")
    assert (await rows(database, task_instance), await rows(database, task_try), await rows(database, run)) == before
    assert await opened(database, task) is None


async def test_the_end_of_an_old_try_leaves_the_new_one_alone(database: Database, task: Startable) -> None:
    await intend(database, task)
    stale = await opened(database, task)
    async with database.transaction() as session:
        await session.execute(update(task_instance).values(try_number=2, state="running"))
    await end(database, task, "failed", "failed", open_try=stale)
    assert await states(database) == ("running", "running")


async def test_only_counted_tries_use_up_retries(database: Database, task: Startable) -> None:
    for number, counted in ((1, True), (2, False), (3, True)):
        (due,) = await startable(database)
        assert await intend(database, due)
        await end(database, task, "up_for_retry", "running", number=number, retry_in=0, counted=counted)
    async with database.reading() as session:
        assert await try_lookup.counted_tries(session, task.key.task_instance_id) == 2


def ref_of(task: Startable, number: int = 1) -> TryRef:
    return TryRef(task_instance_id=task.key.task_instance_id, try_number=number)


async def test_a_driver_renews_its_try_until_the_end_is_known(database: Database, task: Startable) -> None:
    await intend(database, task)
    open_try = await opened(database, task)
    assert open_try is not None
    long_ago = database_time_in(-500.0)
    async with database.transaction() as connection:
        await connection.execute(update(task_try).values(intent_at=long_ago, cancelled_at=database_now()))
    async with database.reading() as connection:
        assert 500 <= await renewals.silence(connection, open_try.tag) < 600
        assert await renewals.silence(connection, "another") == math.inf
        assert not await renewals.was_renewed(connection, open_try.tag)
    async with database.statements() as connection:
        await renewals.renew(
            connection, ref_of(task), "h", "container"
        )  # it is being stopped: what it has opened, it may still close
    async with database.reading() as connection:
        assert await renewals.silence(connection, open_try.tag) < 100
        assert await renewals.was_renewed(connection, open_try.tag)
    async with database.transaction() as connection:
        await connection.execute(update(task_try).values(ended_at=database_now()))
    for ref in (ref_of(task), ref_of(task, 2)):
        with pytest.raises(TryFenced, match="is over"):
            async with database.statements() as connection:
                await renewals.renew(connection, ref, "h", "container")


async def test_a_try_that_is_submitted_again_can_be_started_with_its_new_token_only(
    database: Database, task: Startable
) -> None:
    await intend(database, task)
    open_try = await opened(database, task)
    assert open_try is not None
    async with database.transaction() as session:
        assert await tries.replace_token(session, open_try, "new")
    with pytest.raises(TryFenced, match="was submitted again"):
        async with database.statements() as connection:
            await renewals.renew(connection, ref_of(task), "h", None)
    async with database.reading() as connection:
        assert not await renewals.was_renewed(connection, open_try.tag)
    async with database.statements() as connection:
        await renewals.renew(connection, ref_of(task), "new", "container")
    async with database.transaction() as session:
        assert not await tries.replace_token(session, open_try, "newer"), "its driver runs"


async def test_only_the_home_of_an_open_try_may_start_it(database: Database, task: Startable) -> None:
    async def may_start(home: str = HOME) -> bool:
        async with database.reading() as connection:
            return await renewals.may_start(connection, tag, home)

    await intend(database, task)
    open_try = await opened(database, task)
    assert open_try is not None
    tag = open_try.tag
    assert (await may_start(), await may_start("another")) == (True, False)
    for values in ({"cancelled_at": database_now()}, {"cancelled_at": None, "ended_at": database_now()}):
        async with database.transaction() as connection:
            await connection.execute(update(task_try).values(values))
        assert not await may_start()


async def test_what_an_ended_try_leaves_is_due_when_its_time_has_come(database: Database, task: Startable) -> None:
    async def due() -> list[tuple[str, str | None]]:
        async with database.reading() as connection:
            return [(each.tag, each.handle) for each in await forgetting.due(connection, ["spark-submit"])]

    async def end(open_try: OpenTry, forget_in: float | None) -> None:
        async with database.transaction() as connection:
            more = {"state": "success", "run_state": "success", "reason": None, "warning": None}
            await tries.end(connection, open_try, exit_code=0, retry_in=None, forget_in=forget_in, **more)

    await intend(database, task)
    open_try = await opened(database, task)
    assert open_try is not None
    async with database.transaction() as connection:
        await tries.store_handle(connection, open_try, '{"pod": "p"}')
    assert await due() == []
    await end(open_try, forget_in=3600)
    assert await due() == []
    async with database.transaction() as connection:
        await forgetting.postpone(connection, open_try.key, timedelta(0))
    assert await due() == [(open_try.tag, '{"pod": "p"}')]
    async with database.reading() as connection:
        assert await forgetting.due(connection, ["another"]) == []
    async with database.transaction() as connection:
        await forgetting.postpone(connection, open_try.key, timedelta(minutes=1))
    assert await due() == []
    async with database.transaction() as connection:
        await forgetting.forgotten(connection, open_try.key)
    assert [each["forget_at"] for each in await rows(database, task_try)] == [None]
