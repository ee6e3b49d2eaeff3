"""The ends of commands: documented exit codes, one sentence on stderr, no traceback for what a person can correct."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import typer
from typer.core import TyperGroup

from config.errors import ConfigurationInvalid
from store.errors import StoreError
from watcher.cli.plain_text import harmless_lines
from watcher.errors import FeatureUnusable, ServiceEnded, StartRefused


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
            is_wrong = isinstance(error, (ConfigurationInvalid, FeatureUnusable))
            failure = CommandFailed(str(error), ExitCode.USAGE if is_wrong else ExitCode.FAILED)
        typer.echo(harmless_lines(str(failure)), err=True)
        raise typer.Exit(failure.code)
