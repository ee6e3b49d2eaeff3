"""The commands `watcher jobs …`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from watcher.cli.api_client import ApiClient, part_of_path
from watcher.cli.commands import YesOption, asks, command, confirm, group
from watcher.cli.failures import CommandFailed, ExitCode
from watcher.cli.output import Show
from watcher.cli.tables import Column, Columns, fields, ids, moments, properties, table, texts

jobs = group("jobs", "The jobs, what they run on and what they wait for.")
Job = Annotated[str, typer.Argument(help="The job (its dag_id).")]
COLUMNS: Columns = {
    **ids(job="dag_id"),
    "state": Column(lambda job: "paused" if job["is_paused"] else "active", "state"),
    **texts(**{"runs on": "timetable_summary"}),
    **moments(**{"next tick": "next_dagrun_run_after"}),
    **fields(**{"in failed runs": "unprocessed"}),
}
QUEUES: Columns = {
    **ids(asset="asset"),
    **fields(queued="queued"),
    **moments(since="oldest"),
    "scheduled": Column(lambda queue: "yes" if queue["is_scheduled"] else "no longer"),
}
PARTITIONS: Columns = {
    **ids(partition="partition_key"),
    **fields(events="events"),
    **moments(since="oldest"),
    **texts(**{"waits for": "lacks"}),
}


@command(jobs, "list")
async def list_jobs(api: ApiClient, show: Show) -> None:
    """List the configured jobs."""
    rows = await api.all("/api/v2/dags", "dags")
    show(rows, lambda: table(rows, COLUMNS, "no job is configured; `watcher init` writes a first one"))


@command(jobs, "show")
async def show_job(api: ApiClient, show: Show, job: Job) -> None:
    """Show one job: its schedule, its state, and what it waits for."""
    details = await api.get(f"{_path(job)}/details")
    queue = await api.get(f"{_path(job)}/queue")
    show({**details, "queue": queue}, lambda: properties(_described(details, queue), {"state": "state"}))


def _described(details: Mapping[str, Any], queue: Mapping[str, Any]) -> Mapping[str, Any]:
    return {
        "job": details["dag_id"],
        "state": "paused" if details["is_paused"] else "active",
        "application": details["fileloc"],
        "runs on": details["timetable_summary"] or "manual start only",
        "next tick": details["next_dagrun_run_after"],
        "active runs": f"{details['active_runs_count']} of at most {details['max_active_runs']}",
        "events in failed runs": details["unprocessed"],
        "now": queue["reason"],
    }


@command(jobs, "pause")
async def pause_job(api: ApiClient, show: Show, job: Job) -> None:
    """Pause a job. Its events are queued and its runs wait until `resume`."""
    await _set_paused(api, show, job, paused=True)


@command(jobs, "resume")
async def resume_job(api: ApiClient, show: Show, job: Job) -> None:
    """Resume a paused job. What was queued meanwhile is scheduled at once."""
    await _set_paused(api, show, job, paused=False)


async def _set_paused(api: ApiClient, show: Show, job: str, *, paused: bool) -> None:
    changed = (await api.send("PATCH", _path(job), body={"is_paused": paused})).json()
    show(changed, lambda: f"{job} is paused" if paused else f"{job} goes on")


@command(jobs, "queue")
async def show_queue(
    api: ApiClient,
    show: Show,
    job: Job,
    run: Annotated[bool, typer.Option("--run", help="Make runs of what the schedule no longer waits for.")] = False,
    drop: Annotated[bool, typer.Option("--drop", help="Discard what the schedule no longer waits for.")] = False,
    partition: Annotated[
        str | None, typer.Option(help="With --run: run what is queued of this partition, as it is.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=100, help="The most partitions to show.")] = 50,
    offset: Annotated[int, typer.Option(min=0, help="How many partitions to skip, the oldest first.")] = 0,
    yes: YesOption = False,
) -> None:
    """Show what a job's queue holds and waits for. Run or drop what a changed schedule left in it, or run a partition. On a terminal you are asked before events are dropped."""
    if run and drop:
        raise CommandFailed("--run and --drop exclude each other; give one of them", ExitCode.USAGE)
    if partition is not None:
        await _run_partition(api, show, job, partition, run=run)
        return
    queue = await api.get(f"{_path(job)}/queue", limit=limit, offset=offset)
    if not (run or drop):
        total = queue["total_entries"]
        columns, rows = (PARTITIONS, queue["partitions"]) if total else (QUEUES, queue["assets"])
        show(queue, lambda: table(rows, columns) if rows else "the job waits for no asset")
        show.done(f"{job}: {queue['reason']}")
        if total > len(rows) and columns is PARTITIONS:
            show.done(_place(offset, offset + len(rows), total))
        if queue["cleaned"]:
            show.done(
                f"files of queued events that clean_source has deleted, and runs go without: {queue['cleaned']:,}"
            )
        if queue["kept"]:
            show.done(
                f"events that the schedule does not wait for: {queue['kept']:,}; --run runs them, --drop drops them"
            )
        return
    if drop and queue["kept"] and asks(yes):
        means = f"Events in the queue of {job} that its schedule does not wait for: {queue['kept']:,}. No run ever gets them."
        confirm(means, "Drop them?")
    body = {"action": "run" if run else "drop", "expected_count": queue["kept"]}
    answer = (await api.send("POST", f"{_path(job)}/queue", body=body)).json()
    show(answer, lambda: f"{job}: {answer['events']:,} events {'go into runs' if run else 'are dropped'}")


def _place(offset: int, shown_to: int, total: int) -> str:
    """Return which of the partitions are shown."""
    more = f"; --offset {shown_to} shows the next" if shown_to < total else ""
    return (
        f"partitions {offset + 1:,} to {shown_to:,} of {total:,}{more}"
        if shown_to > offset
        else f"there are {total:,} partitions"
    )


async def _run_partition(api: ApiClient, show: Show, job: str, partition: str, *, run: bool) -> None:
    if not run:
        raise CommandFailed("--partition goes with --run", ExitCode.USAGE)
    body = {"action": "run", "partition": partition}
    answer = (await api.send("POST", f"{_path(job)}/queue", body=body)).json()
    show(answer, lambda: f"{job}: {answer['events']:,} events go into a run")


def _path(job: str) -> str:
    return f"/api/v2/dags/{part_of_path(job)}"
