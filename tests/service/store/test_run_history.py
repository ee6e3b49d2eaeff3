"""The newest runs of jobs, for drawings, on both databases."""

from __future__ import annotations

import random
from collections import defaultdict
from datetime import UTC, datetime

from sqlalchemy import insert

from store.database.schema import run
from store.features.pages import run_history
from tests.databases import on_both
from tests.service.api.application import Api
from tests.service.api.conftest import api as api  # noqa: PLC0414  a fixture

pytestmark = on_both
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
STATES = ("queued", "running", "success", "failed", "deleted")


async def test_each_job_has_its_last_thirty_runs_in_order_and_none_that_was_deleted(api: Api) -> None:
    chance = random.Random(7)
    made: dict[str, list[str]] = defaultdict(list)
    rows = []
    for number in range(300):
        dag_id = chance.choice(["load_orders", "load_orders", "load_orders", "report"])
        state = chance.choices(STATES, weights=(1, 1, 30, 3, 2))[0]
        rows.append(
            {
                "dag_id": dag_id,
                "run_id": f"r{number}",
                "state": state,
                "trace_id": "0" * 32,
                "run_type": "manual",
                "triggered_by": "rest_api",
                "queued_at": NOON,
                "run_after": NOON,
            }
        )
        if state != "deleted":
            made[dag_id].append(f"r{number}")
    async with api.database.transaction() as connection:
        await connection.execute(insert(run), rows)
    async with api.database.reading() as connection:
        both = await run_history.newest_of_jobs(connection, ["report", "load_orders", "no_such_job"])
        assert await run_history.newest_of_jobs(connection, []) == {}
    assert {dag_id: [each.run_id for each in past] for dag_id, past in both.items()} == {
        dag_id: names[-30:] for dag_id, names in made.items()
    }
    assert both["report"][-1].queued_at == NOON
