"""`watcher runs watch`: active runs, with a bar for each on a terminal and a line for each change elsewhere."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from dataclasses import fields as dataclass_fields
from typing import Any, Final, Protocol

import anyio

from watcher.cli.api_client import ApiClient, path_of, runs_path
from watcher.cli.output import Show

EVERY: Final = 1.0
"""Seconds between two polls."""
MOST: Final = 20
"""The largest number of runs watched at a time, the oldest first."""
OVER: Final = frozenset({"success", "failed"})


@dataclass(frozen=True, kw_only=True)
class RunProgress:
    """How far a run has come. None: Spark has not reported it yet."""

    dag_id: str
    dag_run_id: str
    state: str
    try_number: int
    tasks_done: int | None
    tasks: int | None
    detail: str | None

    @property
    def key(self) -> tuple[str, str]:
        return self.dag_id, self.dag_run_id

    @property
    def is_over(self) -> bool:
        return self.state in OVER

    def __str__(self) -> str:
        tasks = "" if self.tasks is None else f"  {self.tasks_done} of {self.tasks} tasks"
        tries = f"  try {self.try_number}" if self.try_number > 1 else ""
        detail = f"  {self.detail}" if self.detail else ""
        return f"{self.dag_id}  {self.dag_run_id}  {self.state}{tries}{tasks}{detail}"


class Display(Protocol):
    def __call__(self, polled: Sequence[RunProgress]) -> None:
        """Show the runs of one poll."""


async def watch_runs(api: ApiClient, display: Display, job: str, run_id: str | None) -> bool:
    """Watch one run until it is over, or every active run forever. Return whether the run has failed."""
    polls = _poll_active(api, job) if run_id is None else _poll_run(api, job, run_id)
    newest: Sequence[RunProgress] = ()
    async for newest in polls:
        display(newest)
    return any(progress.state == "failed" for progress in newest)


async def _poll_run(api: ApiClient, job: str, run_id: str) -> AsyncIterator[Sequence[RunProgress]]:
    while True:
        progress = await _progress(api, await api.get(path_of(job, run_id)))
        yield [progress]
        if progress.is_over:
            return
        await anyio.sleep(EVERY)


async def _poll_active(api: ApiClient, job: str) -> AsyncIterator[Sequence[RunProgress]]:
    """Yield the active runs, and those that ended since the last poll. Runs until interrupted."""
    active: set[tuple[str, str]] = set()
    while True:
        query = {"state": ["queued", "running"], "order_by": "id", "limit": MOST}
        rows = (await api.get(runs_path(job), **query))["dag_runs"]
        keys = {(run["dag_id"], run["dag_run_id"]) for run in rows}
        rows += [await api.get(path_of(*key)) for key in sorted(active - keys)]
        polled = [await _progress(api, run) for run in rows]
        yield polled
        active = {progress.key for progress in polled if not progress.is_over}
        await anyio.sleep(EVERY)


async def _progress(api: ApiClient, run: Mapping[str, Any]) -> RunProgress:
    """Return the progress of a run, as its newest task instance reports it."""
    path = f"{path_of(run['dag_id'], run['dag_run_id'])}/taskInstances"
    [*_, task] = (await api.get(path))["task_instances"] or [{}]
    tasks = task.get("progress") or {}
    return RunProgress(
        dag_id=run["dag_id"],
        dag_run_id=run["dag_run_id"],
        state=run["state"],
        try_number=task.get("try_number", 0),
        tasks_done=tasks.get("tasks_done"),
        tasks=tasks.get("tasks"),
        detail=run["reason"] or task.get("detail"),
    )


@contextmanager
def changed_lines(show: Show) -> Iterator[Display]:
    """Print a line for each run that has changed since the last poll."""
    before: dict[tuple[str, str], RunProgress] = {}
    columns = [field.name for field in dataclass_fields(RunProgress)]
    write = show.stream(lambda record: str(before[record["dag_id"], record["dag_run_id"]]), columns)

    def display(polled: Sequence[RunProgress]) -> None:
        for progress in polled:
            if before.get(progress.key) != progress:
                before[progress.key] = progress
                write(vars(progress))

    yield display
