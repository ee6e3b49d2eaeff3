"""The command `watcher replay`: stored events of a range of time again, for one job."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from watcher.cli.api_client import ApiClient, part_of_path
from watcher.cli.commands import YesOption, asks, command, confirm
from watcher.cli.output import Show
from watcher.cli.tables import properties

top = typer.Typer()
_SHOWN = (
    "queued",
    "cleared_runs",
    "cleared",
    "outside_range",
    "waiting",
    "running",
    "dropped",
    "cleaned",
    "superseded",
)


@command(top, "replay")
async def replay(
    api: ApiClient,
    show: Show,
    job: Annotated[str, typer.Argument(help="The job (its dag_id).")],
    since: Annotated[str, typer.Option("--from", help="Events from this time on, such as 2026-01-31T00:00:00Z.")],
    until: Annotated[str, typer.Option("--to", help="Events before this time.")],
    asset: Annotated[str | None, typer.Option(help="Only events of this asset.")] = None,
    partition: Annotated[str | None, typer.Option(help="Only events with this partition key.")] = None,
    include_dropped: Annotated[
        bool,
        typer.Option("--include-dropped", help="Also what was taken off the queue, or consumed by a forgotten run."),
    ] = False,
    include_cleaned: Annotated[
        bool,
        typer.Option(
            "--include-cleaned",
            help="Also runs that have succeeded and lack files now, which clean_source has deleted: their parts get fewer rows.",
        ),
    ] = False,
    include_superseded: Annotated[
        bool,
        typer.Option(
            "--include-superseded",
            help="Also runs that have succeeded and lack files now, of which newer versions have come: their parts get fewer rows.",
        ),
    ] = False,
    preview: Annotated[bool, typer.Option("--preview", help="Only count what would follow.")] = False,
    yes: YesOption = False,
) -> None:
    """Give a job stored events again. What it never consumed is queued, runs that consumed the rest are cleared. On a terminal you are asked first."""
    path = f"/api/v2/dags/{part_of_path(job)}/replay"
    asked = {
        "from": since,
        "to": until,
        "asset": asset,
        "partition": partition,
        "include_dropped": include_dropped,
        "include_cleaned": include_cleaned,
        "include_superseded": include_superseded,
    }
    answer = (await api.send("POST", path, body={**asked, "dry_run": True})).json()
    if not preview:
        if answer["expected_count"] and asks(yes):
            confirm(meaning(job, since, until, answer), "Replay?")
        counted = {"dry_run": False, "expected_count": answer["expected_count"]}
        answer = (await api.send("POST", path, body={**asked, **counted})).json()
    show(answer, lambda: properties(_described(answer)))


def meaning(job: str, since: str, until: str, answer: Mapping[str, Any]) -> str:
    """Return what a replay would do, by the answer of its preview, as sentences."""
    further = f", which have {answer['outside_range']:,} further events" if answer["outside_range"] else ""
    runs = f"{answer['cleared_runs']:,}{further}"
    alone = [f"{answer[name]:,} {name}" for name in ("waiting", "running", "dropped") if answer[name]]
    alone += [f"{count:,} {fate} by runs that are gone" for fate, count in answer["forgotten"].items() if count]
    gone = [f"{answer[name]:,} {name}" for name in ("cleaned", "superseded") if answer[name]]
    return "\n".join(
        [
            f"{job} gets the events from {since} to {until} again: {answer['expected_count']:,}.",
            f"Queued, since no run of it has consumed them: {answer['queued']:,}.",
            f"Consumed before: {answer['cleared']:,}. Runs that run once more, those too that have succeeded: {runs}.",
            "A job that is not made for it does its work twice.",
            *([f"Events that are left alone: {', '.join(alone)}."] if alone else []),
            *([f"Files that are not read again: {', '.join(gone)}."] if gone else []),
            f"Jobs that may run after it: {', '.join(answer['jobs_behind']) or 'none'}.",
        ]
    )


def _described(answer: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what a replay does, for people."""
    shown = {name: answer[name] for name in _SHOWN}
    return {
        "replay": answer["replay_id"] or "preview",
        **shown,
        **{f"forgotten, {fate}": count for fate, count in answer["forgotten"].items() if count},
        "stored_since": answer["stored_since"],
        "jobs behind": ", ".join(answer["jobs_behind"]) or "none",
    }
