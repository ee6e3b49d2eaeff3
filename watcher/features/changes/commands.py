"""What `watcher pg` does with publications and replication slots."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, cast

import anyio
import typer

from watcher.cli.commands import DEFAULT_CONFIG, ConfigOption, group, load_configuration, local_command
from watcher.cli.failures import CommandFailed, ExitCode
from watcher.cli.output import Show
from watcher.features.rows.commands import watched_table

if TYPE_CHECKING:
    from config.models import Configuration
    from triggers.changes.options import ChangesOptions
    from triggers.postgres.connection import PostgresConnection

pg = group("pg", "Watched PostgreSQL tables.")


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

    connection, options = watched_table(load_configuration(config), name)
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
