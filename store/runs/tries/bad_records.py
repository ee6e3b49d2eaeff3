"""Bad records that successful runs have left out of their tables. They are a problem until a person has resolved them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sqlalchemy import select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from store.database.paging import all_of
from store.database.schema import HAS_UNRESOLVED_RECORDS, database_now, run
from store.runs.runs import RunRow, get, this_run

MOST_UNRESOLVED: Final = 1000
"""The newest runs with bad records that are a problem."""

_r = run.c
_LOADED: Final = (HAS_UNRESOLVED_RECORDS, _r.state == "success")


async def note(connection: AsyncConnection, dag_id: str, run_id: str, bad_records: int) -> int:
    """Keep the bad records of a run's newest success, as unresolved. Return them if no success of it has reported any before.

    So each run is counted once, however often it is cleared.
    """
    this = this_run(dag_id, run_id)
    before = (await connection.execute(select(_r.bad_records).where(this))).scalar_one_or_none()
    if before is None and not bad_records:
        return 0
    await connection.execute(update(run).where(this).values(bad_records=bad_records, bad_records_resolved_at=None))
    return bad_records if before is None else 0


async def unresolved(connection: AsyncConnection, limit: int = MOST_UNRESOLVED) -> Sequence[RunRow]:
    """Return the successful runs whose bad records nobody has resolved: the newest `limit`, newest first."""
    query = select(run).where(*_LOADED).order_by(_r.id.desc()).limit(limit)
    return await all_of(connection, query, RunRow)


def sentence(of_run: RunRow) -> str:
    """Return what is wrong with a run that `unresolved` has returned. Its reason, which can hold values of its source, says more."""
    number = "1 bad record" if of_run.bad_records == 1 else f"{of_run.bad_records} bad records"
    return f"the run {of_run.run_id} of {of_run.dag_id} has left out {number}"


async def resolve(connection: AsyncConnection, dag_id: str, run_id: str) -> bool:
    """Record that a person has looked at a run's bad records. Return whether there were any to resolve. Raises `NotFound`."""
    await get(connection, dag_id, run_id)
    this = update(run).where(this_run(dag_id, run_id), *_LOADED).values(bad_records_resolved_at=database_now())
    return (await connection.execute(this.returning(_r.id))).one_or_none() is not None
