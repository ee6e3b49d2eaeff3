"""Decide what the commit of a try does to a table that records tries, as Delta and Iceberg tables do. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256

from asset_job.errors import Fenced
from asset_job.tables.layout import Owner

_NAME = re.compile(r"(?P<writer>[0-9a-f]{16})-(?P<try_number>\d+)-\d+\.parquet")


@dataclass(frozen=True, kw_only=True)
class WritingTry:
    """The try that writes, as a table identifies it."""

    owner: Owner
    try_number: int

    @cached_property
    def id(self) -> str:
        """The id of the task instance, which is the same for all its tries."""
        owner = self.owner
        return f"{owner.dag_id}/{owner.run_id}/{owner.task_id}/{owner.map_index}"

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of the id, in hex."""
        return sha256(self.id.encode()).hexdigest()

    @property
    def prefix(self) -> str:
        """How the names of this try's files begin; a number and `.parquet` follow."""
        return f"{self.digest[:16]}-{self.try_number}-"

    def try_of(self, path: str) -> int | None:
        """The number of the try of this task instance that wrote a file; None if another task instance wrote it."""
        name = _NAME.fullmatch(path.rpartition("/")[2])
        return int(name["try_number"]) if name and name["writer"] == self.digest[:16] else None


@dataclass(frozen=True, kw_only=True)
class Record:
    """What the newest commit of a task instance recorded in the table."""

    try_number: int
    files: int
    """How many files the commit added."""


@dataclass(frozen=True)
class Done:
    """The commit took effect before, and its answer was lost."""


@dataclass(frozen=True)
class Replace:
    """Remove these files, and add the try's own."""

    files: frozenset[str]


@dataclass(frozen=True)
class Rewritten:
    """Others have rewritten rows of the task instance into files of their own."""

    remaining: frozenset[str]
    """The files of the task instance that the table still has."""


def plan(writer: WritingTry, record: Record | None, live: Collection[str]) -> Done | Replace | Rewritten:
    """Decide what a commit of `writer` does. Raises `Fenced` if a later try has written already.

    `record` is what the loaded version of the table records of the task instance, and `live` the paths of all its files.
    """
    tries = {path: number for path in live if (number := writer.try_of(path)) is not None}
    newest = max([*tries.values(), *([record.try_number] if record else [])], default=0)
    if newest > writer.try_number:
        raise Fenced(f"try {newest} of this run has written the table already; this is try {writer.try_number}")
    if record is not None and record.try_number == writer.try_number:
        return Done()
    expected = (record.try_number, record.files) if record else (0, 0)
    is_whole = len(tries) == expected[1] and set(tries.values()) <= {expected[0]}
    return Replace(frozenset(tries)) if is_whole else Rewritten(frozenset(tries))
