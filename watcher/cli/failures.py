"""The ends of commands: documented exit codes, one sentence on stderr, no traceback for what a person can correct."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import typer
from typer.core import TyperGroup

from config.errors import ConfigurationInvalid
from store.errors import StoreError
from watcher.cli.plain_text import harmless_lines
from watcher.errors import ServiceEnded, StartRefused

EXIT_CODES = (
    "Exit codes: 0 done; 1 failed, or the daemon cannot be reached; 2 wrong words or a wrong configuration; "
    "3 `check --connect` found an error; 4 there is no such thing; 5 refused because of the state of things, "
    "as another version or a name that is taken; 6 `status` says that something is wrong; 130 interrupted."
)


class ExitCode(IntEnum):
    FAILED = 1
    USAGE = 2
    CHECK_FAILED = 3
    NOT_FOUND = 4
    CONFLICT = 5
    UNWELL = 6
    INTERRUPTED = 130


class CommandFailed(Exception):
    """A command cannot do what was asked. The text says why and names the remedy."""

    def __init__(self, sentence: str, code: ExitCode = ExitCode.FAILED) -> None:
        super().__init__(sentence)
        self.code = code


class Unavailable(CommandFailed):
    """The daemon answers that it cannot do this now."""


class Commands(TyperGroup):
    """A group of commands whose failures end in a sentence and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise typer.Exit(ExitCode.INTERRUPTED) from None
        except CommandFailed as error:
            failure = error
        except (ConfigurationInvalid, StoreError, StartRefused, ServiceEnded) as error:
            failure = CommandFailed(
                str(error), ExitCode.USAGE if isinstance(error, ConfigurationInvalid) else ExitCode.FAILED
            )
        typer.echo(harmless_lines(str(failure)), err=True)
        raise typer.Exit(failure.code)
