"""What the terminal shows while the demo runs: events, runs and store entries as they change."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table

from watcher.features.demo.counting import Count
from watcher.features.demo.setting import Setting

NOTHING_YET: Final = Count(written=0, seen=0, lost=0, repeated=0)
LONGEST_CELL: Final = 60


@dataclass(kw_only=True)
class State:
    """What is known so far. The demo fills it; `live` draws it, `line` writes it."""

    url: str
    phase: str = "starting"
    seconds: float = 0.0
    files: Count = NOTHING_YET
    rows: Count = NOTHING_YET
    events: Sequence[dict[str, Any]] = ()
    runs: Sequence[dict[str, Any]] = ()
    entries: Sequence[tuple[str, dict[str, Any]]] = field(default_factory=list)


def line(state: State) -> str:
    """Return the state as one line, for output that is no terminal."""
    return f"{state.seconds:5.1f} s  {progress(state)}"


def progress(state: State) -> str:
    """Return what has happened so far, without the time."""
    runs = ", ".join(f"{run['dag_id']} {run['state']}" for run in state.runs[:4])
    return (
        f"{state.phase}: files {state.files.seen} of {state.files.written} seen, "
        f"rows {state.rows.seen} of {state.rows.written} seen; runs: {runs or 'none yet'}"
    )


def live(state: State) -> RenderableType:
    head = (
        f"[bold]{state.phase}[/]  {state.seconds:.0f} s   files {state.files.seen}/{state.files.written}   "
        f"rows {state.rows.seen}/{state.rows.written}   {state.url}/docs"
    )
    return Group(Panel(head, title="Asset Watcher"), _events(state), _runs(state), _entries(state))


def _events(state: State) -> Table:
    table = Table("asset event of", "count", "watermark", title="Events", expand=True)
    for event in state.events[:5]:
        extra = event["extra"]
        watermark = _short(extra.get("watermark", {}).get("to"))
        table.add_row(event.get("name") or extra.get("watcher", ""), str(extra.get("count", "")), watermark)
    return table


def _runs(state: State) -> Table:
    table = Table("run", "state", "since", title="Runs", expand=True)
    for run in state.runs[:6]:
        name = f"{run['dag_id']}  {run['dag_run_id'][-20:]}"
        table.add_row(name, run["state"], run["start_date"] or run["queued_at"])
    return table


def _entries(state: State) -> Table:
    table = Table("asset", "key", "value", "last updated by", title="Asset store", expand=True)
    for asset, entry in state.entries[:10]:
        writer = entry["last_updated_by"]
        by = f"{writer['kind']} {writer['watcher'] or writer['actor'] or writer['dag_id']}" if writer else ""
        table.add_row(asset, entry["key"], _short(entry["value"]), by)
    return table


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= LONGEST_CELL else text[: LONGEST_CELL - 1] + "…"


def final(files: Count, rows: Count, runs: dict[str, int], writes: dict[str, int], seconds: float) -> Table:
    table = Table("", "written", "seen", "lost", "repeated", title=f"After {seconds:.0f} s")
    for name, counted in (("files", files), ("rows", rows)):
        table.add_row(name, *map(str, (counted.written, counted.seen, counted.lost, counted.repeated)))
    table.caption = (
        f"Spark runs: {runs['success']} succeeded, {runs['failed']} failed. "
        f"Store writes: {writes['watcher']} by watchers, {writes['task']} by jobs, {writes['api']} through the API."
    )
    return table


def invitation(setting: Setting, program: str, link: str) -> str:
    """Return what people may do while the demo stays."""
    return f"""
the pages: {setting.url}/demo
sign in there, once and within five minutes: {link}
try in a second terminal:
  {program} status -c {setting.configuration}
  {program} open -c {setting.configuration}
Ctrl-C ends it, and nothing is left"""


def farewell(program: str) -> str:
    """Return what people may do after a demo that has ended."""
    return f"""
it has stopped, and nothing is left; try next:
  {program} demo --keep  # stays, with its pages and a link that signs you in
  {program} init mine --source inbox --target tables/orders"""
