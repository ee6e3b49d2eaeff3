"""`watcher state-store cleanup-task-states`: the clean-up, once and now, directly on the configured database."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import anyio
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from watcher.cli.commands import DEFAULT_CONFIG, ConfigOption, JsonOption, Show, group, load_configuration, table

if TYPE_CHECKING:
    from config.models import Configuration
    from watcher.cleanup import Progress as CleanupProgress

state_store = group("state-store", "The state that jobs keep.")


@state_store.callback()
def _group() -> None:
    """Typer makes a single command the group itself unless there is this."""


@state_store.command("cleanup-task-states")
def cleanup_task_states(
    config: ConfigOption = DEFAULT_CONFIG,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count only; change nothing.")] = False,
    batch_size: Annotated[int | None, typer.Option(min=1, help="Rows in one transaction (PostgreSQL).")] = None,
    as_json: JsonOption = False,
) -> None:
    """Remove what is past its time: task entries, orphaned asset entries, history, runs, events, log files."""
    configuration = load_configuration(config)
    counts = anyio.run(_clean, configuration, dry_run, batch_size, not as_json)
    columns = {"what": lambda row: row[0], "would be removed" if dry_run else "removed": lambda row: row[1]}
    Show(as_json=as_json)({"dry_run": dry_run, "counts": counts}, lambda: table(counts.items(), columns))


async def _clean(configuration: Configuration, dry_run: bool, batch_size: int | None, talk: bool) -> Mapping[str, int]:
    from watcher import logs  # noqa: PLC0415  see watcher.cli
    from watcher.app import logs_directory, open_backend  # noqa: PLC0415
    from watcher.cleanup import Cleaner, Limits  # noqa: PLC0415
    from watcher.cli.connections import opened_database  # noqa: PLC0415

    settings, console = configuration.settings, Console(stderr=True)
    directory = logs_directory(settings)
    async with opened_database(settings) as database:
        backend = open_backend(settings, database)
        if not backend.entries(database).keeps_history:
            name = settings.store.backend
            typer.echo(f"the entries in {name} are skipped: its own clean-up is called instead", err=True)
        cleaner = Cleaner(database, backend, directory, Limits.of(settings, batch_size))
        if dry_run:
            return await cleaner.count()
        level = "info" if talk and not console.is_terminal else "warning"
        with (
            logs.configure(directory, level=level, json=False, owner="cli", max_file_mb=64),
            _progress(console) as progress,
        ):
            return await cleaner.clean(progress)


@contextmanager
def _progress(console: Console) -> Iterator[CleanupProgress]:
    """A bar for each sweep on a terminal, log lines elsewhere."""
    if not console.is_terminal:
        from watcher.cleanup import in_the_log  # noqa: PLC0415  see watcher.cli

        yield in_the_log
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as bars:
        known = {}

        def show(name: str, done: int, total: int) -> None:
            if name not in known:
                known[name] = bars.add_task(name)
            bars.update(known[name], completed=done, total=total)

        yield show
