"""`watcher explain`: what became of one file or row."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Annotated, Any, Final

import typer

from watcher.cli.api_client import ApiClient
from watcher.cli.commands import command
from watcher.cli.output import Show
from watcher.cli.tables import Column, Columns, ids, sentences, states, table

top = typer.Typer()
_PATH: Final = "/api/v2/explain"
_NOT_THERE: Final = {"missing", "not_matched", "outside"}


def _events(answer: Mapping[str, Any]) -> str | None:
    more = ", and older ones" if answer["facts"].get("more_events") else ""
    return (", ".join(str(event["id"]) for event in answer["events"]) + more) or None


def _run(run: Mapping[str, Any]) -> str:
    table_ = f" -> {run['table']}" if run["table"] else ""
    return f"{run['dag_id']} {run['run_id']} {run['state']}{table_}" + (f" @ {run['commit']}" if run["commit"] else "")


COLUMNS: Columns = {
    **ids(watcher="watcher"),
    **states(state="state"),
    **sentences(explanation="sentence"),
    "events": Column(_events, "text"),
    "runs": Column(lambda answer: "; ".join(map(_run, answer["runs"])) or None, "text"),
    **ids(page="url"),
}


@command(top, "explain")
async def _explain(
    api: ApiClient,
    show: Show,
    item: Annotated[str, typer.Argument(help="A file's URL, key or path, a row's id, or its key as JSON.")],
    watcher: Annotated[str | None, typer.Option(help="Ask this watcher only.")] = None,
) -> None:
    """Say what became of a file or a row. It names the event, the run that consumed it, or why none did."""
    explained = await _explained(api, item, watcher)
    answers = explained["answers"]
    nobody = f"no watcher could have {item!r}; give --watcher to see why one has not"
    show(explained, lambda: table(answers, COLUMNS) if answers else nobody)


async def _explained(api: ApiClient, item: str, watcher: str | None) -> Any:
    """Return the API's answer for an item, or, if no watcher has it, for the file of this name below the current folder."""
    explained = await api.get(_PATH, item=item, watcher=watcher)
    if _states(explained) <= _NOT_THERE and (path := _file_here(item)) is not None:
        here = await api.get(_PATH, item=path, watcher=watcher)
        if _states(here) - {"outside"}:
            return here
    return explained


def _file_here(item: str) -> str | None:
    return os.path.abspath(item) if os.path.isfile(item) else None  # noqa: PTH100, PTH113  of any text, and resolves no link


def _states(explained: Any) -> set[str]:
    return {answer["state"] for answer in explained["answers"]}
