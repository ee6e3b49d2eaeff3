"""Progress bars of runs, drawn again at each poll."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table as Grid
from rich.text import Text

from watcher.cli.plain_text import harmless
from watcher.cli.rendering import COLORS, GAP, INDENT
from watcher.host.states import look_of

if TYPE_CHECKING:
    from watcher.features.commands.run_progress import Display, RunProgress

WIDTH: Final = 24
MOST: Final = 30
"""The largest number of runs shown. Runs that ended first make room for others."""


@contextmanager
def bars(console: Console | None = None) -> Iterator[Display]:
    """Show a bar for each run. The bar of a run that is over stays as it was last."""
    known: dict[tuple[str, str], RunProgress] = {}
    with Live(console=console, auto_refresh=False, vertical_overflow="visible") as live:

        def display(polled: Sequence[RunProgress]) -> None:
            known.update((progress.key, progress) for progress in polled)
            over = [key for key, progress in known.items() if progress.is_over]
            for key in over[: max(len(known) - MOST, 0)]:
                del known[key]
            drawn = map(draw, known.values())
            live.update(Group(*drawn) if known else Text("no run is queued or running"), refresh=True)

        yield display


def draw(progress: RunProgress) -> RenderableType:
    """Return two lines: the run's ids, wrapped rather than cut; its state, its bar and its details."""
    ids = Text(harmless(f"{progress.dag_id}{' ' * GAP}{progress.dag_run_id}"), "bold", overflow="fold")
    tasks = "" if progress.tasks is None else f"{progress.tasks_done} of {progress.tasks} tasks"
    tries = f"try {progress.try_number}" if progress.try_number > 1 else ""
    look = look_of(progress.state)
    grid = Grid.grid(padding=(0, GAP, 0, 0))
    grid.add_column(width=INDENT - GAP)
    grid.add_row(
        "",
        Text(f"{look.mark} {progress.state}", COLORS[look.color]),
        ProgressBar(total=progress.tasks or 1, completed=_completed(progress), width=WIDTH),
        Text(tasks, no_wrap=True),
        Text(" ".join(filter(None, (tries, harmless(progress.detail or ""))))),
    )
    return Group(ids, grid)


def _completed(progress: RunProgress) -> int:
    if progress.state == "success":
        return progress.tasks or 1
    return progress.tasks_done or 0
