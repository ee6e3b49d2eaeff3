"""`watcher db` and `state-store`: the configured database."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from operator import itemgetter
from typing import TYPE_CHECKING, Annotated

import anyio
import typer

from watcher.cli.commands import DEFAULT_CONFIG, ConfigOption, group, load_settings, local_command
from watcher.cli.output import Show
from watcher.cli.tables import Column, table

if TYPE_CHECKING:
    from rich.console import Console

    from config.models.settings import Settings
    from watcher.operations.cleanup import CleanupProgress

db = group("db", "The metadata database.")
state_store = group("state-store", "The state that jobs keep.")


@local_command(db, "upgrade")
def upgrade(show: Show, config: ConfigOption = DEFAULT_CONFIG) -> None:
    """Upgrade the schema to this program's version."""
    anyio.run(_open, load_settings(config), True)
    show({"schema": "current"}, lambda: "the schema is this program's")


@local_command(db, "check")
def check(show: Show, config: ConfigOption = DEFAULT_CONFIG) -> None:
    """Check that the database answers and has this program's schema. Exit code 1 if not."""
    left_alone = anyio.run(_check, load_settings(config))
    lines = [
        "the schema is this program's",
        *(
            f"the tables x_{feature}_… (version {version}) are of a feature that settings.features does not name; they are left alone"
            for feature, version in left_alone.items()
        ),
    ]
    answer = {"schema": "current", **({"left_alone": left_alone} if left_alone else {})}
    show(answer, lambda: "\n".join(lines))


async def _open(settings: Settings, upgrade: bool) -> None:
    from watcher.cli.database import opened_database  # noqa: PLC0415  see watcher.cli

    async with opened_database(settings, upgrade=upgrade):
        pass


async def _check(settings: Settings) -> Mapping[str, int]:
    """Return the features whose tables nobody uses here, each with their version."""
    from store.database import feature_tables, migrations  # noqa: PLC0415  see watcher.cli
    from watcher import assembly  # noqa: PLC0415
    from watcher.host.database_address import connections_to_database  # noqa: PLC0415
    from watcher.installed import installed  # noqa: PLC0415

    tables = assembly.feature_tables(installed(settings.features))
    async with connections_to_database(settings) as database:
        await migrations.check(database, features=tables)
        async with database.reading() as connection:
            return await feature_tables.left_alone(connection, {each.feature for each in tables})


@state_store.callback()
def _group() -> None:
    """Keep a group with a single command a group: without a callback, Typer makes the command the group itself."""


@local_command(state_store, "cleanup-task-states")
def cleanup_task_states(
    show: Show,
    config: ConfigOption = DEFAULT_CONFIG,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count only; change nothing.")] = False,
    batch_size: Annotated[int | None, typer.Option(min=1, help="Rows in one transaction (PostgreSQL).")] = None,
) -> None:
    """Remove what is past its retention: task entries, orphaned asset entries, history, runs, events, log files."""
    counts = anyio.run(_clean, load_settings(config), dry_run, batch_size, show.for_people)
    columns = {"what": Column(itemgetter(0)), "would be removed" if dry_run else "removed": Column(itemgetter(1))}
    show({"dry_run": dry_run, "counts": counts}, lambda: table(counts.items(), columns))


async def _clean(settings: Settings, dry_run: bool, batch_size: int | None, talk: bool) -> Mapping[str, int]:
    from watcher import assembly  # noqa: PLC0415  see watcher.cli
    from watcher.cli.database import opened_database  # noqa: PLC0415
    from watcher.host import logs  # noqa: PLC0415
    from watcher.host.home import make_home  # noqa: PLC0415
    from watcher.host.metadata import logs_directory, open_backend  # noqa: PLC0415
    from watcher.installed import installed  # noqa: PLC0415
    from watcher.operations.cleanup import Cleaner, CleanupLimits  # noqa: PLC0415

    directory = logs_directory(settings)
    make_home(settings.home)
    async with opened_database(settings) as database:
        backend = open_backend(settings, database)
        if not backend.entries(database).keeps_history:
            name = settings.store.backend
            typer.echo(f"the entries in {name} are skipped: its own clean-up is called instead", err=True)
        limits, brought = CleanupLimits.of(settings, batch_size), installed(settings.features).features
        kept, chores = assembly.kept_events(brought), assembly.chores(brought)
        cleaner = Cleaner(database, backend, settings.home, directory, limits, kept, chores)
        if dry_run:
            return await cleaner.count()
        from rich.console import Console  # noqa: PLC0415  behind structlog, which imports more where rich is there

        console = Console(stderr=True)
        level = "info" if talk and not console.is_terminal else "warning"
        with (
            logs.configure(directory, level=level, json=False, owner="cli", max_file_mb=64),
            _progress(console) as progress,
        ):
            return await cleaner.clean(progress)


@contextmanager
def _progress(console: Console) -> Iterator[CleanupProgress]:
    """Show a bar for each sweep on a terminal, and log lines elsewhere."""
    if not console.is_terminal:
        from watcher.operations.cleanup import in_the_log  # noqa: PLC0415  see watcher.cli

        yield in_the_log
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: PLC0415

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as bars:
        known = {}

        def show(name: str, done: int, total: int) -> None:
            if name not in known:
                known[name] = bars.add_task(name)
            bars.update(known[name], completed=done, total=total)

        yield show
