"""`watcher init`: writes a configuration, a job and its test for a source of the user's."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from config.errors import ConfigurationInvalid
from watcher.cli.commands import load_configuration, local_command
from watcher.cli.failures import CommandFailed, ExitCode
from watcher.cli.output import Show
from watcher.features.init.first_files import Loading, PlaceInvalid, check_apart, files, source_of, target_of
from watcher.features.init.first_job import TableFormat
from watcher.host.machine import program

top = typer.Typer()
_SOURCE = "Where does new data appear? A folder, s3://bucket/prefix/ or postgres://user@host/database/schema/table"
_TARGET = "Where shall it go? A folder or s3://bucket/prefix"


@local_command(top, "init")
def init(
    show: Show,
    folder: Annotated[Path, typer.Argument(help="Where to write; it is made.")] = Path(),
    source: Annotated[str | None, typer.Option(help="Where new data appears; asked for on a terminal.")] = None,
    target: Annotated[str | None, typer.Option(help="Where it goes; likewise.")] = None,
    table_format: Annotated[TableFormat, typer.Option("--format", help="What the target is.")] = "parquet",
    endpoint: Annotated[str | None, typer.Option(metavar="URL", help="Of an S3 server that is not AWS.")] = None,
    name: Annotated[str | None, typer.Option(help="What it is, as `orders`; else the target's last word.")] = None,
    match: Annotated[str | None, typer.Option(help='Which files, as "*.csv"; else all.')] = None,
) -> None:
    """Write a checked configuration, a job and its test. They are for your source and target."""
    source, target = source or _ask(_SOURCE, "--source"), target or _ask(_TARGET, "--target")
    try:
        watched, loaded = source_of(source, Path.cwd()), target_of(target, Path.cwd())
        check_apart(watched, loaded)
    except PlaceInvalid as error:
        raise CommandFailed(str(error), ExitCode.USAGE) from None
    name = name or loaded.name
    if not name.isidentifier() or not name.isascii():
        raise CommandFailed(f"{name} cannot be a module's name: use letters, digits and _", ExitCode.USAGE)
    match = None if watched.kind == "postgres" else match
    loading = Loading(name=name, format=table_format, match=match, endpoint=endpoint, folder=folder)
    try:
        texts = files(watched, loaded, loading)
    except PlaceInvalid as error:
        raise CommandFailed(str(error), ExitCode.USAGE) from None
    _write(folder, texts)
    show(
        {"folder": str(folder), "files": sorted(texts)},
        lambda: "\n".join([*(f"wrote {folder / path}" for path in texts), *_next_steps(folder)]),
    )


def _ask(question: str, option: str) -> str:
    if not sys.stdin.isatty():
        raise CommandFailed(f"say it with {option}: nobody can be asked here", ExitCode.USAGE)
    answer: str = typer.prompt(question)
    return answer


def _write(folder: Path, texts: Mapping[str, str]) -> None:
    """Write all files or none. The result is checked as `watcher check` does."""
    paths = {folder / path: text for path, text in texts.items()}
    if there := [str(path) for path in paths if path.exists()]:
        raise CommandFailed(f"{', '.join(there)}: there already; choose another folder, or --name", ExitCode.CONFLICT)
    try:
        for path, text in paths.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        load_configuration(folder / "watchers.yaml", with_files=True)
    except (OSError, ConfigurationInvalid) as error:
        for path in paths:
            path.unlink(missing_ok=True)
        raise CommandFailed(str(error), ExitCode.FAILED) from error


def _next_steps(folder: Path) -> list[str]:
    there = [] if folder == Path() else [f"  cd {folder}"]
    return [
        "next:",
        *there,
        f"  {sys.executable} -m pytest tests  # the job's test, with Spark and no daemon",
        f"  {program()} check --connect  # can the source be reached, and does a run have what it needs?",
        f"  {program()} run",
    ]
