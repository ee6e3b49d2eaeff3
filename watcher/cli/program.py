"""The program, put together from its parts. Of a command that is named, only the part that has it is imported."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, Final, NamedTuple

import typer

from watcher.cli.failures import EXIT_CODES, Commands


class Part(NamedTuple):
    """A group of commands: the module of this package that has it, its name there, and the first words of its commands."""

    module: str
    group: str
    words: Sequence[str]


PARTS: Final = (
    Part("configuration", "daemon", ("run", "demo", "schema")),
    Part("init", "top", ("init",)),
    Part("configuration", "top", ("reload", "check")),
    Part("watchers", "top", ("pause", "resume", "logs", "poll", "rewind")),
    Part("status", "top", ("status",)),
    Part("explain", "top", ("explain",)),
    Part("pages", "top", ("open", "sign-in-link")),
    Part("reconcile", "top", ("reconcile",)),
    Part("replay", "top", ("replay",)),
    Part("watchers", "watchers", ("watchers",)),
    Part("watchers", "rejected", ("rejected",)),
    Part("assets", "assets", ("assets",)),
    Part("jobs", "jobs", ("jobs",)),
    Part("runs", "runs", ("runs",)),
    Part("store", "store", ("store",)),
    Part("administration", "db", ("db",)),
    Part("tokens", "token", ("token",)),
    Part("administration", "spark", ("spark",)),
    Part("administration", "state_store", ("state-store",)),
    Part("administration", "pg", ("pg",)),
    Part("kubernetes", "kubernetes", ("kubernetes",)),
)
"""All parts, in the order in which `watcher --help` shows their commands."""


def _version(requested: bool) -> None:
    if requested:
        from watcher.host.machine import program_version  # noqa: PLC0415  see watcher.cli

        typer.echo(program_version())
        raise typer.Exit


def program(words: Sequence[str] = ()) -> typer.Typer:
    """Return the program with the commands that begin with the first of `words`; with all of them, if none does."""
    app = typer.Typer(
        name="watcher",
        cls=Commands,
        no_args_is_help=True,
        epilog=EXIT_CODES,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    @app.callback()
    def watcher(
        _: Annotated[
            bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
        ] = False,
    ) -> None:
        """New files and new rows, each exactly once, to PySpark jobs."""

    for part in [part for part in PARTS if words and words[0] in part.words] or PARTS:
        app.add_typer(vars(import_module(f"watcher.cli.{part.module}"))[part.group])
    return app
