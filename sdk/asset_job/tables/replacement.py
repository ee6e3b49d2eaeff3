"""What the commit of a try does to a table that records tries, as Delta and Iceberg tables do. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256

from ..errors import Fenced
from .layout import Owner

_NAME = re.compile(r"(?P<writer>[0-9a-f]{16})-(?P<try_number>\d+)-\d+\.parquet")


@dataclass(frozen=True, kw_only=True)
class Writer:
    """One try of a task instance, as a table knows it."""

    owner: Owner
    try_number: int

    @cached_property
    def id(self) -> str:
        """The same for all tries."""
        owner = self.owner
        return f"{owner.dag_id}/{owner.run_id}/{owner.task_id}/{owner.map_index}"

    @cached_property
    def digest(self) -> str:
        return sha256(self.id.encode()).hexdigest()

    @property
    def prefix(self) -> str:
        """Of the names of this try's files; what follows are a number and `.parquet`."""
        return f"{self.digest[:16]}-{self.try_number}-"

    def try_of(self, path: str) -> int | None:
        """The try of this task instance that wrote a file; None: somebody else did."""
        name = _NAME.fullmatch(path.rpartition("/")[2])
        return int(name["try_number"]) if name and name["writer"] == self.digest[:16] else None


@dataclass(frozen=True, kw_only=True)
class Record:
    """What the newest commit of a task instance left in the table: of which try it was, and how many files it added."""

    try_number: int
    files: int


@dataclass(frozen=True)
class Done:
    """The commit was made before, and its answer lost."""


@dataclass(frozen=True)
class Replace:
    """Take these files out, put the try's own in."""

    files: frozenset[str]


@dataclass(frozen=True)
class Rewritten:
    """The task instance's rows lie in files that others wrote. `left` are those of its own that are still there."""

    left: frozenset[str]


def plan(writer: Writer, record: Record | None, live: Collection[str]) -> Done | Replace | Rewritten:
    """`live` are the paths of all files that the loaded version of the table has. Raises `Fenced`."""
    tries = {path: number for path in live if (number := writer.try_of(path)) is not None}
    newest = max([*tries.values(), *([record.try_number] if record else [])], default=0)
    if newest > writer.try_number:
        raise Fenced(f"try {newest} of this run has written the table already; this is try {writer.try_number}")
    if record is not None and record.try_number == writer.try_number:
        return Done()
    expected = (record.try_number, record.files) if record else (0, 0)
    is_whole = len(tries) == expected[1] and set(tries.values()) <= {expected[0]}
    return Replace(frozenset(tries)) if is_whole else Rewritten(frozenset(tries))
