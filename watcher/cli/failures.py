"""How commands end: documented exit codes, one sentence on stderr, never a traceback for what a person can mend."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import typer
from typer.core import TyperGroup

from config.errors import ConfigurationInvalid
from store.errors import StoreError
from watcher.cli.plain_text import harmless_lines
from watcher.errors import PartEnded, StartRefused

EXIT_CODES = (
    "Exit codes: 0 done; 1 failed, or the daemon cannot be reached; 2 wrong words or a wrong configuration; "
    "3 `check --connect` found an error; 4 there is no such thing; 5 refused because of the state of things, "
    "as another version or a name that is taken; 6 `status` says that something is wrong; 130 interrupted."
)


class Exit(IntEnum):
    FAILED = 1
    USAGE = 2
    CHECK_FAILED = 3
    NOT_FOUND = 4
    CONFLICT = 5
    UNWELL = 6
    INTERRUPTED = 130


class Failure(Exception):
    """A command cannot do what it was asked for; the text says why and names the remedy."""

    def __init__(self, sentence: str, code: Exit = Exit.FAILED) -> None:
        super().__init__(sentence)
        self.code = code


class Unavailable(Failure):
    """The daemon answers that it cannot do it now."""


class Commands(TyperGroup):
    """A group of commands whose failures end in a sentence and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise typer.Exit(Exit.INTERRUPTED) from None
        except Failure as error:
            failure = error
        except (ConfigurationInvalid, StoreError, StartRefused, PartEnded) as error:
            failure = Failure(str(error), Exit.USAGE if isinstance(error, ConfigurationInvalid) else Exit.FAILED)
        typer.echo(harmless_lines(str(failure)), err=True)
        raise typer.Exit(failure.code)
