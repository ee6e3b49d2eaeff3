"""What a reload came to, as whoever asked for it learns it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from config.changes import Changes
from config.errors import Problem

Result: TypeAlias = Literal["applied", "unchanged", "followed", "refused", "failed"]
"""`followed`: another process applied it; `failed`: the database did not answer, and it is tried again."""
FOLLOWED_WITHIN: Final = 3.0
"""Seconds for which an answer waits for the other processes to read their files."""


@dataclass(frozen=True, kw_only=True)
class ReloadOutcome:
    """A configuration that this process runs now. `dequeued`: queue rows that went with their edges."""

    result: Result
    hash: str
    changes: Changes
    dequeued: int = 0


class ReloadRefused(Exception):
    """The configuration is wrong, or needs a restart; nothing of it took effect. `problems` are all of them."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(map(str, self.problems)))
