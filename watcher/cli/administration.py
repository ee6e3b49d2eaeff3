"""`watcher db` and `state-store` (the configured database), `pg` (a watched database), `spark` (this machine)."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import anyio
import typer

from store.errors import no_watcher
from watcher.cli.commands import DEFAULT_CONFIG, ConfigOption, group, load_configuration, load_settings, local_command
from watcher.cli.failures import CommandFailed, ExitCode
from watcher.cli.output import Show
from watcher.cli.tables import Column, table

if TYPE_CHECKING:
    from rich.console import Console

    from config.models import Configuration
    from config.models.settings import Settings
    from triggers.changes.options import ChangesOptions
    from triggers.postgres.connection import PostgresConnection
    from triggers.postgres.table_options import TableOptions
    from watcher.operations.cleanup import CleanupProgress

db = group("db", "The metadata database.")
spark = group("spark", "Spark on this machine.")
state_store = group("state-store", "The state that jobs keep.")
pg = group("pg", "Watched PostgreSQL tables.")


@local_command(db, "upgrade")
def upgrade(show: Show, config: ConfigOption = DEFAULT_CONFIG) -> None:
    """Upgrade the schema to this program's version."""
    anyio.run(_open, load_settings(config), True)
    show({"schema": "current"}, lambda: "the schema is this program's")


@local_command(db, "check")
def check(show: Show, config: ConfigOption = DEFAULT_CONFIG) -> None:
    """Check that the database answers and has this program's schema. Exit code 1 if not."""
    left = anyio.run(_check, load_settings(config))
    sentences = [f"the tables of the feature {name} are left alone: it is not installed here" for name in left]
    answer = {"schema": "current", **({"left_alone": left} if left else {})}
    show(answer, lambda: "\n".join(["the schema is this program's", *sentences]))


async def _open(settings: Settings, upgrade: bool) -> None:
    from watcher.cli.database import opened_database  # noqa: PLC0415  see watcher.cli

    async with opened_database(settings, upgrade=upgrade):
        pass


async def _check(settings: Settings) -> list[str]:
    from store.database import feature_schemas, migrations  # noqa: PLC0415  see watcher.cli
    from watcher import assembly  # noqa: PLC0415
    from watcher.host.database_address import connections_to_database  # noqa: PLC0415
    from watcher.installed import installed  # noqa: PLC0415

    async with connections_to_database(settings) as database:
        await migrations.check(database)
        return [*await feature_schemas.check(database, assembly.upgrades(installed(settings.features).features))]


@local_command(spark, "archive")
def archive(
    show: Show,
    python: Annotated[str, typer.Option(help="The interpreter of the jobs; its pyspark is meant.")] = sys.executable,
    spark_home: Annotated[Path | None, typer.Option(help="The Spark, where it is another than pyspark's own.")] = None,
) -> None:
    """Create the class archive that lets jobs with `profile: small` start faster. Takes half a minute, once per Java and Spark."""
    from watcher.submit.base import SubmitError  # noqa: PLC0415
    from watcher.submit.spark import class_archive  # noqa: PLC0415  see watcher.cli
    from watcher.submit.spark.runtime import find_runtime  # noqa: PLC0415

    folder = class_archive.archive_folder(os.environ)
    try:
        runtime = find_runtime(python, None if spark_home is None else str(spark_home), os.environ)
        made = class_archive.make_archive(folder, runtime, os.environ)
    except class_archive.NoArchiveFolder as error:
        made, sentence = False, str(error)  # jobs run without, so nothing has failed
    except SubmitError as error:
        raise CommandFailed(str(error), ExitCode.FAILED) from None
    else:
        sentence = f"the class archive {'was made' if made else 'is there'}, in {folder}"
    show({"made": made, "message": sentence}, lambda: sentence)


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


@local_command(pg, "install-notify")
def install_notify(
    show: Show,
    name: Annotated[str, typer.Argument(help="A watcher with `listen: true`.")],
    apply: Annotated[bool, typer.Option("--apply", help="Run it, with the watcher's own connection.")] = False,
    config: ConfigOption = DEFAULT_CONFIG,
) -> None:
    """Print the trigger that notifies a watcher at once when its table is written to.

    Pipe it into psql as the table's owner, or --apply it.
    """
    from triggers.postgres.server.notifications import definition  # noqa: PLC0415  see watcher.cli

    connection, options = _watched_table(load_configuration(config), name)
    script = definition(options)
    if apply:
        anyio.run(_apply, connection, options)
    done = {"table": options.table, "sql": script, "applied": apply}
    show(done, lambda: f"{options.table} notifies from now on" if apply else script.rstrip())


@local_command(pg, "install-publication")
def install_publication(
    show: Show,
    name: Annotated[str, typer.Argument(help="A watcher of postgres.changes.")],
    apply: Annotated[bool, typer.Option("--apply", help="Run it, with the watcher's own connection.")] = False,
    config: ConfigOption = DEFAULT_CONFIG,
) -> None:
    """Print the publication from which a watcher of changes reads, once the table's replica identity is right for it.

    Pipe it into psql as the table's owner, or --apply it.
    """
    from triggers.changes.options import ChangesOptions  # noqa: PLC0415  see watcher.cli

    connection, options = _watched_table(load_configuration(config), name)
    if not isinstance(options, ChangesOptions):
        raise CommandFailed(f"{name} has mode: {options.mode}, which needs no publication", ExitCode.USAGE)
    script = anyio.run(_publication, connection, options, apply)
    done = {"table": options.table, "publication": options.publication_name, "sql": script, "applied": apply}
    show(done, lambda: f"{options.publication_name} publishes {options.table}" if apply else script.rstrip())


async def _publication(connection: PostgresConnection, options: ChangesOptions, apply: bool) -> str:
    from triggers.changes.publication import definition, install  # noqa: PLC0415
    from triggers.errors import TriggerError  # noqa: PLC0415  see watcher.cli

    try:
        script = await definition(connection, options)
        if apply:
            await install(connection, script)
    except TriggerError as error:
        raise CommandFailed(str(error)) from error
    return script


@local_command(pg, "drop-slot")
def drop_slot(
    show: Show,
    name: Annotated[str, typer.Argument(help="A watcher of postgres.changes that is not configured any more.")],
    config: ConfigOption = DEFAULT_CONFIG,
) -> None:
    """Drop the replication slot that a removed watcher left behind, so that its server need not keep WAL for it."""
    configuration = load_configuration(config)
    watcher = configuration.watchers.get(name)
    if watcher is not None and watcher.facts.has_slot:
        remedy = "take it out of the configuration first; `watcher rewind` makes a lost slot again"
        raise CommandFailed(f"{name} is configured and reads from its slot; {remedy}", ExitCode.USAGE)
    slot, dropped_from = anyio.run(_drop_slot, configuration, name)
    done = {"watcher": name, "slot": slot, "dropped_from": dropped_from}
    show(
        done, lambda: f"{slot} is dropped from {', '.join(dropped_from)}" if dropped_from else f"{slot} is on no server"
    )


async def _drop_slot(configuration: Configuration, name: str) -> tuple[str, list[str]]:
    from triggers.changes.publication import drop_slot  # noqa: PLC0415
    from triggers.errors import TriggerError  # noqa: PLC0415  see watcher.cli
    from watcher.cli.database import opened_database  # noqa: PLC0415
    from watcher.features.changes.left_slots import servers_with, slots_of  # noqa: PLC0415

    async with opened_database(configuration.settings) as database, database.reading() as connection:
        slots = await slots_of(connection, [name])
    if (slot := slots.get(name)) is None:
        raise CommandFailed(f"{name} has left no position in mode log; correct the name", ExitCode.NOT_FOUND)
    try:
        servers = await servers_with(configuration, [slot])
        for server in servers:
            await drop_slot(cast("PostgresConnection", configuration.connections[server]), slot)
    except TriggerError as error:
        raise CommandFailed(str(error)) from error
    return slot, [*servers]


def _watched_table(configuration: Configuration, name: str) -> tuple[PostgresConnection, TableOptions]:
    from triggers.postgres.table_options import TableOptions  # noqa: PLC0415  see watcher.cli

    watcher = configuration.watchers.get(name)
    if watcher is None:
        raise CommandFailed(str(no_watcher(name)), ExitCode.NOT_FOUND)
    if not isinstance(watcher.options, TableOptions) or watcher.connection is None:
        remedy = "name a watcher of postgres.new_rows or postgres.changes"
        raise CommandFailed(f"{name} watches no PostgreSQL table; {remedy}", ExitCode.USAGE)
    return cast("PostgresConnection", configuration.connections[watcher.connection]), watcher.options


async def _apply(connection: PostgresConnection, options: TableOptions) -> None:
    from triggers.errors import TriggerError  # noqa: PLC0415  see watcher.cli
    from triggers.postgres.server.notifications import install  # noqa: PLC0415

    try:
        await install(connection, options)
    except TriggerError as error:
        raise CommandFailed(
            f"{error}; run what this command prints without --apply as the owner of the table"
        ) from error
