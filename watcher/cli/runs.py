"""`watcher runs`."""

from __future__ import annotations

import json
from typing import Annotated, Any
from urllib.parse import quote

import typer

from watcher.cli.api_client import ApiClient
from watcher.cli.commands import Columns, Show, command, fields, group, table
from watcher.cli.failures import Exit, Failure

runs = group("runs", "Runs of jobs.")
Job = Annotated[str, typer.Argument(help="The job (its dag_id).")]
RunId = Annotated[str, typer.Argument(help="The run's id.")]
COLUMNS: Columns = {
    **fields(job="dag_id", run="dag_run_id", state="state", queued="queued_at", seconds="duration"),
    "reason": lambda run: run["reason"] or run["warning"],
}
TASKS: Columns = {
    **fields(task="task_id", state="state"),
    "try": lambda task: task["try_number"],
    **fields(started="start_date", seconds="duration"),
    "progress": lambda task: task["progress"] and "{tasks_done} of {tasks} tasks".format(**task["progress"]),
    "detail": lambda task: task["detail"],
}


@command(runs, "list")
async def list_runs(
    api: ApiClient,
    show: Show,
    job: Annotated[str, typer.Argument(help="Of this job only.")] = "~",
    state: Annotated[str | None, typer.Option(help="queued, running, success or failed.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=100, help="How many.")] = 20,
) -> None:
    """List the newest runs."""
    query = {"order_by": "-id", "limit": limit, **({} if state is None else {"state": state})}
    rows = (await api.get(f"/api/v2/dags/{_part(job)}/dagRuns", **query))["dag_runs"]
    show(rows, lambda: table(rows, COLUMNS))


@command(runs, "show")
async def show_run(api: ApiClient, show: Show, job: Job, run_id: RunId) -> None:
    """Show one run and its task instances."""
    run = await api.get(_path(job, run_id))
    tasks = (await api.get(f"{_path(job, run_id)}/taskInstances"))["task_instances"]
    show({**run, "task_instances": tasks}, lambda: table([run], COLUMNS))
    if not show.as_json:
        show(tasks, lambda: table(tasks, TASKS))


@command(runs, "start")
async def start(
    api: ApiClient,
    show: Show,
    job: Job,
    conf: Annotated[str, typer.Option(metavar="JSON", help="An object; the job has it as `r.conf`.")] = "{}",
) -> None:
    """Start a run by hand; it needs no events."""
    body = {"logical_date": None, "conf": _object(conf)}
    run = (await api.send("POST", f"/api/v2/dags/{_part(job)}/dagRuns", body=body)).json()
    show(run, lambda: table([run], COLUMNS))


def _object(text: str) -> dict[str, Any]:
    try:
        content = json.loads(text)
    except ValueError as error:
        raise Failure(f"--conf is no JSON: {error}", Exit.USAGE) from None
    if not isinstance(content, dict):
        raise Failure('--conf is no JSON object; write {"name": value}', Exit.USAGE)
    return content


@command(runs, "retry")
async def retry(
    api: ApiClient,
    show: Show,
    job: Annotated[str | None, typer.Argument(help="The job (its dag_id).")] = None,
    run_id: Annotated[str | None, typer.Argument(help="The run's id.")] = None,
    failed: Annotated[str | None, typer.Option(metavar="JOB", help="All failed runs of this job.")] = None,
) -> None:
    """Run again what is over, with the same events: one run, or all failed ones of a job."""
    if (failed is None) == (job is None or run_id is None) or (failed is not None and job is not None):
        raise Failure("name a job and a run, or a job whose failed runs are meant with --failed JOB", Exit.USAGE)
    runs_to_repeat = [(str(job), str(run_id))] if failed is None else await _failed(api, failed)
    body = {"dry_run": False}
    again = [(await api.send("POST", f"{_path(*run)}/clear", body=body)).json() for run in runs_to_repeat]
    show(again, lambda: table(again, COLUMNS) if again else "no run has failed")


async def _failed(api: ApiClient, job: str) -> list[tuple[str, str]]:
    """The oldest first, so that they run again in their order."""
    rows = await api.all(f"/api/v2/dags/{_part(job)}/dagRuns", "dag_runs", state="failed", order_by="id")
    return [(run["dag_id"], run["dag_run_id"]) for run in rows]


@command(runs, "cancel")
async def cancel(api: ApiClient, show: Show, job: Job, run_id: RunId) -> None:
    """Stop a run: its driver is stopped, and it counts as failed."""
    run = await api.get(_path(job, run_id))
    if run["state"] not in {"queued", "running"}:
        raise Failure(f"the run is over: {run['state']}", Exit.CONFLICT)
    cancelled = (await api.send("PATCH", _path(job, run_id), body={"state": "failed"})).json()
    show(cancelled, lambda: table([cancelled], COLUMNS))


@command(runs, "logs")
async def show_logs(
    api: ApiClient,
    show: Show,
    job: Job,
    run_id: RunId,
    number: Annotated[int | None, typer.Option("--try", min=1, help="The try; default: the newest.")] = None,
) -> None:
    """Print what a run's driver said, and what was recorded about it; with --json a record a line."""
    task = (await api.get(f"{_path(job, run_id)}/taskInstances"))["task_instances"][0]
    attempt = number or task["try_number"]
    if not attempt:
        raise Failure("the run has not been tried yet, so it has no log", Exit.NOT_FOUND)
    path = f"{_path(job, run_id)}/taskInstances/{_part(task['task_id'])}/logs/{attempt}"
    form = {"Accept": "application/x-ndjson" if show.as_json else "text/plain"}
    offset = "0"
    while offset:
        answer = await api.send("GET", path, query={"token": offset, "full_content": True}, headers=form)
        typer.echo(answer.text, nl=False)
        offset = answer.headers["Airflow-Continuation-Token"]


def _path(job: str, run_id: str) -> str:
    return f"/api/v2/dags/{_part(job)}/dagRuns/{_part(run_id)}"


def _part(name: str) -> str:
    return quote(name, safe="~")
