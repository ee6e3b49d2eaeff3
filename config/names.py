"""The form of a name, the names that one configuration declares, and suggestions for a mistyped one."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import AfterValidator, WithJsonSchema

NAME_PATTERN: Final = "[A-Za-z0-9_][A-Za-z0-9_.-]{0,249}"
_FEW: Final = 24


def check_name(name: str) -> str:
    """Return `name`, or raise ValueError if it is not a valid one. Names become parts of paths and URLs."""
    if not re.fullmatch(NAME_PATTERN, name):
        raise ValueError(
            "is not a name: use up to 250 of the characters A-Z a-z 0-9 _ . - and begin with a letter, a digit or _"
        )
    return name


Name: TypeAlias = Annotated[
    str, AfterValidator(check_name), WithJsonSchema({"type": "string", "pattern": f"^{NAME_PATTERN}$"})
]


Isolation: TypeAlias = Literal["process", "none"]
"""Where a trigger runs: in a process of its own, or in the daemon's."""


def did_you_mean(word: str, known: Collection[str]) -> str:
    """A remedy to follow "unknown …": the known word that is most like `word`, or all known words if they are few."""
    if close := get_close_matches(word, known, n=1):
        return f"did you mean `{close[0]}`?"
    if len(known) > _FEW:
        return "check its spelling"
    return "known: " + ", ".join(f"`{name}`" for name in sorted(known)) if known else "none is defined"


@dataclass(frozen=True, kw_only=True)
class Scope:
    """What the parts of one configuration may refer to. The models get it as pydantic's validation context.

    A model that is validated without a scope does not check references, and its paths stay relative.
    """

    folder: Path
    """The folder where relative paths in the file start. It is absolute."""
    assets: Collection[str] = ()
    aliases: Collection[str] = ()
    connections: Collection[str] = ()
    with_files: bool = False
    """Whether the files that jobs name must exist already."""

    def check_asset(self, name: str) -> str | None:
        """What is wrong with a reference to the asset `name`, or None."""
        if name in self.aliases and name not in self.assets:
            return f"`{name}` is an alias, not an asset: write `{{alias: {name}}}`"
        return _unknown("asset", name, self.assets)

    def check_alias(self, name: str) -> str | None:
        """What is wrong with a reference to the alias `name`, or None."""
        if name in self.assets and name not in self.aliases:
            return f"`{name}` is an asset, not an alias: write the name alone"
        return _unknown("alias", name, self.aliases)

    def check_connection(self, name: str) -> str | None:
        """What is wrong with a reference to the connection `name`, or None."""
        return _unknown("connection", name, self.connections)


def _unknown(kind: str, name: str, known: Collection[str]) -> str | None:
    return None if name in known else f"unknown {kind} `{name}`; {did_you_mean(name, known)}"
