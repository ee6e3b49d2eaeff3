"""The commands `watcher runs …`."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any

import typer

from watcher.cli.api_client import ApiClient, part_of_path, path_of, runs_path
from watcher.cli.commands import YesOption, asks, command, confirm, group
from watcher.cli.failures import CommandFailed, ExitCode
from watcher.cli.output import Show
from watcher.cli.tables import Column, Columns, fields, ids, moments, states, table, texts
from watcher.host.event_words import why_in_words

runs = group("runs", "Runs of jobs.")
Job = Annotated[str, typer.Argument(help="The job (its dag_id).")]
RunId = Annotated[str, typer.Argument(help="The run's id.")]
COLUMNS: Columns = {
    **ids(job="dag_id", run="dag_run_id"),
    **states(state="state"),
    **moments(queued="queued_at"),
    "made": Column(lambda run: why_in_words(run["run_type"])),
    "partition": Column(lambda run: run["partition_key"]),
    **fields(seconds="duration"),
    "reason": Column(lambda run: run["reason"] or run["warning"], "text"),
}
TASKS: Columns = {
    **ids(task="task_id"),
    **states(state="state"),
    "try": Column(lambda task: task["try_number"]),
    **moments(started="start_date"),
    **fields(seconds="duration"),
    "progress": Column(lambda task: task["progress"] and "{tasks_done} of {tasks} tasks".format(**task["progress"])),
    **texts(detail="detail"),
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
    rows = (await api.get(runs_path(job), **query))["dag_runs"]
    show(
        rows,
        lambda: table(
            rows, COLUMNS, "no such run; a run comes when a job's schedule is met, or by `watcher runs start`"
        ),
    )


@command(runs, "show")
async def show_run(api: ApiClient, show: Show, job: Job, run_id: RunId) -> None:
    """Show one run and its task instances."""
    run = await api.get(path_of(job, run_id))
    tasks = (await api.get(f"{path_of(job, run_id)}/taskInstances"))["task_instances"]
    lacking = {name: name for name in ("cleaned", "superseded") if run[name]}
    columns = {**COLUMNS, **fields(**lacking)} if lacking else COLUMNS
    show({**run, "task_instances": tasks}, lambda: table([run], columns))
    show.more(lambda: table(tasks, TASKS, "it has not been tried yet"))


@command(runs, "watch")
async def watch(
    api: ApiClient,
    show: Show,
    job: Annotated[str, typer.Argument(help="Of this job only.")] = "~",
    run_id: Annotated[str | None, typer.Argument(help="This run, until it is over: exit code 1 if it fails.")] = None,
) -> None:
    """Watch queued and running runs until Ctrl-C, or one run until it is over."""
    if run_id is not None and job == "~":
        raise CommandFailed("name the job of the run, too", ExitCode.USAGE)
    from watcher.features.commands.run_progress import changed_lines, watch_runs  # noqa: PLC0415  see watcher.cli

    if show.for_people and sys.stdout.isatty():
        from watcher.features.commands.progress_bars import bars  # noqa: PLC0415  see watcher.cli

        opened = bars()
    else:
        opened = changed_lines(show)
    with opened as display:
        has_failed = await watch_runs(api, display, job, run_id)
    if has_failed:
        raise typer.Exit(ExitCode.FAILED)


@command(runs, "start")
async def start(
    api: ApiClient,
    show: Show,
    job: Job,
    conf: Annotated[str, typer.Option(metavar="JSON", help="An object; the job has it as `r.conf`.")] = "{}",
) -> None:
    """Start a run by hand. It needs no events."""
    body = {"logical_date": None, "conf": _object(conf)}
    run = (await api.send("POST", runs_path(job), body=body)).json()
    show(run, lambda: table([run], COLUMNS))


def _object(text: str) -> dict[str, Any]:
    try:
        content = json.loads(text)
    except ValueError as error:
        raise CommandFailed(f"--conf is no JSON: {error}", ExitCode.USAGE) from None
    if not isinstance(content, dict):
        raise CommandFailed('--conf is no JSON object; write {"name": value}', ExitCode.USAGE)
    return content


@command(runs, "retry")
async def retry(
    api: ApiClient,
    show: Show,
    job: Annotated[str | None, typer.Argument(help="The job (its dag_id).")] = None,
    run_id: Annotated[str | None, typer.Argument(help="The run's id.")] = None,
    failed: Annotated[str | None, typer.Option(metavar="JOB", help="All failed runs of this job.")] = None,
    include_cleaned: Annotated[
        bool,
        typer.Option(
            "--include-cleaned",
            help="Also a run that has succeeded and lacks files now, which clean_source has deleted: its part gets fewer rows.",
        ),
    ] = False,
    include_superseded: Annotated[
        bool,
        typer.Option(
            "--include-superseded",
            help="Also a run that has succeeded and lacks files now, of which newer versions have come: its part gets fewer rows.",
        ),
    ] = False,
    yes: YesOption = False,
) -> None:
    """Run a finished run again with the same events, or all failed runs of a job. On a terminal you are asked before several are."""
    if (failed is None) == (job is None or run_id is None) or (failed is not None and job is not None):
        raise CommandFailed(
            "name a job and a run, or a job whose failed runs are meant with --failed JOB", ExitCode.USAGE
        )
    runs_to_repeat = [(str(job), str(run_id))] if failed is None else await _failed(api, failed)
    if len(runs_to_repeat) > 1 and asks(yes):
        oldest, newest = runs_to_repeat[0][1], runs_to_repeat[-1][1]
        means = f"Failed runs of {failed} that run again, the oldest first: {len(runs_to_repeat):,}.\nFrom {oldest}\nto {newest}."
        confirm(means, "Run them again?")
    body = {"dry_run": False, "include_cleaned": include_cleaned, "include_superseded": include_superseded}
    again, left_alone = list[Any](), list[str]()
    for run in runs_to_repeat:
        try:
            again.append((await api.send("POST", f"{path_of(*run)}/clear", body=body)).json())
        except CommandFailed as error:
            if failed is None or error.code is not ExitCode.CONFLICT:
                raise
            left_alone.append(f"left alone: {error}")
    show(again, lambda: table(again, COLUMNS) if again else "no run is cleared" if left_alone else "no run has failed")
    if left_alone:
        show.more(lambda: "\n".join(left_alone))


async def _failed(api: ApiClient, job: str) -> list[tuple[str, str]]:
    """Return the failed runs, the oldest first, so that they run again in order."""
    rows = await api.all(runs_path(job), "dag_runs", state="failed", order_by="id")
    return [(run["dag_id"], run["dag_run_id"]) for run in rows]


@command(runs, "cancel")
async def cancel(api: ApiClient, show: Show, job: Job, run_id: RunId) -> None:
    """Cancel a run. Its driver is stopped, and the run counts as failed."""
    run = await api.get(path_of(job, run_id))
    if run["state"] not in {"queued", "running"}:
        raise CommandFailed(f"the run is over: {run['state']}", ExitCode.CONFLICT)
    cancelled = (await api.send("PATCH", path_of(job, run_id), body={"state": "failed"})).json()
    show(cancelled, lambda: table([cancelled], COLUMNS))


@command(runs, "resolve")
async def resolve(api: ApiClient, show: Show, job: Job, run_id: RunId) -> None:
    """Resolve the bad records of a run, once somebody has looked at them: they are a problem no longer."""
    resolved = (await api.send("POST", f"{path_of(job, run_id)}/resolve")).json()
    show(resolved, lambda: table([resolved], COLUMNS))


@command(runs, "logs")
async def show_logs(
    api: ApiClient,
    show: Show,
    job: Job,
    run_id: RunId,
    number: Annotated[int | None, typer.Option("--try", min=1, help="The try; default: the newest.")] = None,
) -> None:
    """Print the output of a run's driver, and what was recorded about it. With --json, print one record a line."""
    task = (await api.get(f"{path_of(job, run_id)}/taskInstances"))["task_instances"][0]
    attempt = number or task["try_number"]
    if not attempt:
        raise CommandFailed("the run has not been tried yet, so it has no log", ExitCode.NOT_FOUND)
    path = f"{path_of(job, run_id)}/taskInstances/{part_of_path(task['task_id'])}/logs/{attempt}"
    offset = "0"
    while offset:
        answer = await api.send("GET", path, query={"token": offset, "full_content": True}, headers=show.log_headers)
        show.log(answer.text)
        offset = answer.headers["Airflow-Continuation-Token"]
