"""A run's bad records: kept with its success, counted once, unresolved until a person says so."""

from __future__ import annotations

import pytest

from store.database import Database
from store.errors import NotFound
from store.keys import TryRef
from store.runs import runs
from store.runs.actions import decisions
from store.runs.tries import bad_records, tries
from store.runs.tries.startable import Startable
from tests.service.store.test_tries import claim, end, finish, intend, opened, queued_task, startable


@pytest.fixture
async def task(database: Database) -> Startable:
    """A queued run of the job `load`."""
    return await queued_task(database)


async def succeed(database: Database, task: Startable, number: int, records: int) -> int:
    """One try that succeeds with bad records. Return how many of them are new to the run."""
    await intend(database, task)
    await claim(database, task, number=number)
    ref = TryRef(task_instance_id=task.key.task_instance_id, try_number=number)
    async with database.transaction() as session:
        done = await tries.finish(session, ref, finish_state="success", message="2 of a.csv", bad_records=records)
    await end(database, task, "success", "success", number=number, exit_code=0)
    assert done is not None
    return done.new_bad_records


async def unresolved(database: Database) -> list[tuple[str, int | None]]:
    async with database.reading() as session:
        return [(each.run_id, each.bad_records) for each in await bad_records.unresolved(session)]


async def resolve(database: Database, run_id: str = "r1") -> bool:
    async with database.transaction() as session:
        return await bad_records.resolve(session, "load", run_id)


async def test_bad_records_of_a_success_are_unresolved_until_a_person_resolves_them(
    database: Database, task: Startable
) -> None:
    assert await succeed(database, task, 1, 5) == 5
    assert await unresolved(database) == [("r1", 5)]
    async with database.reading() as session:
        (sentence,) = [bad_records.sentence(each) for each in await bad_records.unresolved(session)]
    assert sentence == "the run r1 of load has left out 5 bad records"
    assert await resolve(database)
    assert not await resolve(database)
    assert await unresolved(database) == []
    async with database.reading() as session:
        made = await runs.get(session, "load", "r1")
    assert (made.bad_records, made.bad_records_resolved_at is not None, made.has_unresolved_records) == (5, True, False)


async def test_a_run_without_bad_records_has_none_to_resolve(database: Database, task: Startable) -> None:
    assert await succeed(database, task, 1, 0) == 0
    assert await unresolved(database) == []
    assert not await resolve(database)
    async with database.reading() as session:
        assert (await runs.get(session, "load", "r1")).bad_records is None
    with pytest.raises(NotFound):
        await resolve(database, "r2")


async def test_a_cleared_run_is_counted_once_and_is_a_problem_as_its_newest_success_says(
    database: Database, task: Startable
) -> None:
    assert await succeed(database, task, 1, 5) == 5
    await resolve(database)
    for number, records, expected in ((2, 4, [("r1", 4)]), (3, 0, []), (4, 2, [("r1", 2)])):
        async with database.transaction() as session:
            await decisions.clear(session, "load", "r1")
        assert await unresolved(database) == []
        (again,) = await startable(database)
        assert await succeed(database, again, number, records) == 0
        assert await unresolved(database) == expected


async def test_only_a_failure_is_final(database: Database, task: Startable) -> None:
    await intend(database, task)
    await claim(database, task)
    ref = TryRef(task_instance_id=task.key.task_instance_id, try_number=1)
    for _ in range(2):
        async with database.transaction() as session:
            await tries.finish(session, ref, finish_state="failed", message="no header", is_final=True)
    found = await opened(database, task)
    assert found is not None
    assert (found.is_final, found.finish_state) == (True, "failed")
    await finish(database, task, "failed")  # a repetition that says less changes nothing
    found = await opened(database, task)
    assert found is not None
    assert found.is_final
