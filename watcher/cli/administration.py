"""`watcher db` and `watcher token`: directly on the configured database; `watcher spark`: on this machine."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import anyio
import typer

from watcher.cli.commands import DEFAULT_CONFIG, ConfigOption, JsonOption, Show, group, load_configuration
from watcher.cli.failures import Exit, Failure

if TYPE_CHECKING:
    from config.settings import Settings

db = group("db", "The metadata database.")
token = group("token", "Tokens of people and tools.")
spark = group("spark", "Spark on this machine.")
_LONGEST_SUBJECT = 250


@db.command("upgrade")
def upgrade(config: ConfigOption = DEFAULT_CONFIG, as_json: JsonOption = False) -> None:
    """Bring the schema to this program's."""
    anyio.run(_open, load_configuration(config).settings, True)
    Show(as_json=as_json)({"schema": "current"}, lambda: "the schema is this program's")


@db.command("check")
def check(config: ConfigOption = DEFAULT_CONFIG, as_json: JsonOption = False) -> None:
    """Say whether the database answers and its schema is this program's: exit code 1 if not."""
    anyio.run(_check, load_configuration(config).settings)
    Show(as_json=as_json)({"schema": "current"}, lambda: "the schema is this program's")


async def _open(settings: Settings, upgrade: bool) -> None:
    from watcher.cli.connections import opened_database  # noqa: PLC0415  see watcher.cli

    async with opened_database(settings, upgrade=upgrade):
        pass


async def _check(settings: Settings) -> None:
    from store.database import Database, migrations  # noqa: PLC0415  see watcher.cli
    from watcher.app import database_url  # noqa: PLC0415

    async with Database.open(database_url(settings)) as database:
        await migrations.check(database)


@token.command("create")
def create(
    subject: Annotated[str, typer.Option(help="Whom the token speaks for; it stands in the audit.")],
    role: Annotated[Literal["viewer", "operator", "admin"], typer.Option(help="What it may do.")],
    config: ConfigOption = DEFAULT_CONFIG,
    as_json: JsonOption = False,
) -> None:
    """Make a token and print it; it is never shown again."""
    if not 1 <= len(subject) <= _LONGEST_SUBJECT or not subject.isprintable():
        raise Failure(f"a subject has 1 to {_LONGEST_SUBJECT} printable characters; choose another", Exit.USAGE)
    made = anyio.run(_create, load_configuration(config).settings, subject, role)
    Show(as_json=as_json)({"token": made, "subject": subject, "role": role}, lambda: made)


async def _create(settings: Settings, subject: str, role: str) -> str:
    from store.processes import audit, tokens  # noqa: PLC0415  see watcher.cli
    from watcher.cli.connections import account, opened_database  # noqa: PLC0415

    async with opened_database(settings) as database, database.transaction() as connection:
        detail = {"role": role}
        await audit.record(connection, actor=account(), action="token.create", target=subject, detail=detail)
        return await tokens.create(connection, subject, role)


@spark.command("archive")
def archive(
    python: Annotated[str, typer.Option(help="The interpreter of the jobs; its pyspark is meant.")] = sys.executable,
    spark_home: Annotated[Path | None, typer.Option(help="The Spark, where it is another than pyspark's own.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Make the class archive that lets jobs with `profile: small` start quicker: half a minute, once per Java and Spark."""
    from watcher.submit import class_archive  # noqa: PLC0415  see watcher.cli
    from watcher.submit.base import SubmitError  # noqa: PLC0415
    from watcher.submit.runtime import find_runtime  # noqa: PLC0415

    folder = class_archive.archive_folder(os.environ)
    try:
        runtime = find_runtime(python, None if spark_home is None else str(spark_home), os.environ)
        made = class_archive.make_archive(folder, runtime, os.environ)
    except class_archive.NoArchiveFolder as error:
        made, sentence = False, str(error)  # jobs run without, so nothing has failed
    except SubmitError as error:
        raise Failure(str(error), Exit.FAILED) from None
    else:
        sentence = f"the class archive {'was made' if made else 'is there'}, in {folder}"
    Show(as_json=as_json)({"made": made, "message": sentence}, lambda: sentence)
