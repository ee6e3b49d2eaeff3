"""The outcome of a reload, as its caller receives it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from config.errors import Problem
from config.models.changes import ConfigurationChanges

Result: TypeAlias = Literal["applied", "unchanged", "followed", "refused", "failed"]
"""The result of a reload. `followed`: another process applied it. `failed`: the database did not answer; it is retried."""
FOLLOWED_WITHIN: Final = 3.0
"""Seconds for which an answer waits until the other processes have read their files."""


@dataclass(frozen=True, kw_only=True)
class ReloadOutcome:
    """The configuration that this process runs now, and the `changes` of this reload.

    The rest is that of the reload, or start, that applied the configuration, which may have been an earlier one. `dequeued`
    counts the queued events that were dropped with their jobs. `kept` counts by job the queued events that its schedule does
    not wait for. Of the events that were stored before a job was first seen, `caught_up` counts by job those of its assets
    that it gets, because of `catchup`, and `left_out` those that are never its own. `cleaned` counts by job the files of the former
    that it does not get, because `clean_source` has deleted them. `watchers` were added or changed.
    """

    result: Result
    hash: str
    changes: ConfigurationChanges
    dequeued: int = 0
    kept: Mapping[str, int] = field(default_factory=dict)
    caught_up: Mapping[str, int] = field(default_factory=dict)
    left_out: Mapping[str, int] = field(default_factory=dict)
    cleaned: Mapping[str, int] = field(default_factory=dict)
    watchers: frozenset[str] = frozenset()


class ReloadRefused(Exception):
    """The configuration is wrong, or needs a restart. Nothing of it took effect. `problems` has every reason."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(map(str, self.problems)))
