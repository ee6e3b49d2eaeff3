"""What a watcher keeps of its last batches, packed in chunks: by these rows it notices that the server's history went back (pure).

A restored or promoted server holds a prefix of the old history. A row that it shows as it was reported proves everything that
was visible before the row's transaction began. Each chunk belongs to one batch: it names the server's marks, how far the watcher had come, and
of each row its key and its fingerprint: the transaction that wrote it, and its witness, eight bytes that no other row under the
same key has.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, TypeAlias

from triggers.base import RowChanges

Key: TypeAlias = int | str
"""An id, or a primary key as JSON text."""

KEPT_FOR: Final = 600.0
"""Seconds for which chunks are kept."""
MOST_ROWS: Final = 100_000
"""The most rows in all chunks of a watcher."""
MOST_CHUNKS: Final = 10_000
FEWEST_BATCHES: Final = 2
"""The number of newest chunks with rows that are kept, however old and large they are."""
DROPPED_EVERY: Final = 30.0
"""Seconds between two deletions of old chunks, so that few batches pay for a deletion."""
SLACK: Final = 1.25
"""How far the number of rows or chunks may exceed its limit before that."""
BASELINE: Final = 1_000
"""How many of the newest rows a first chunk holds, which belongs to no batch."""
FINGERPRINT: Final = struct.Struct(">I8s")
"""A row's fingerprint: 32 bits of the xid that wrote it, and its witness."""
NO_WITNESS: Final = bytes(8)
NO_FINGERPRINT: Final = FINGERPRINT.pack(0, NO_WITNESS)
"""The fingerprint of a row that is not recognized."""


def widened(xid: int, xmax: int) -> int:
    """Return the 64 bits of a row's xid, of which the row holds 32; `xmax` is that of a snapshot which shows the row."""
    return xmax - ((xmax - xid) % 2**32)


class WitnessKind(Enum):
    """What tells a reported row from another one under the same key."""

    TIME = "time"
    """Mode `id`: a time that the inserting transaction set, and that no update changes."""
    ROW = "row"
    """Mode `id`: the row's transaction and a hash of its columns."""
    UPDATE = "update"
    """Mode `updated_at`: the row's transaction and the watched column."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Witness:
    """How a table's rows are recognized. `sql` is an expression for eight bytes, `column` the time's column."""

    kind: WitnessKind
    sql: str
    column: str | None = None

    def fingerprint(self, xmin: str) -> str:
        """Return an expression for the fingerprint of a row, whose `xmin` is another."""
        return f"xidsend({xmin}) || coalesce({self.sql}, '\\x{NO_WITNESS.hex()}')"

    def describe(self) -> str:
        if self.column is not None:
            return f"rows are recognized by {self.column}, should the server's history go back"
        return (
            "rows are recognized by a hash of what the role may read, should the server's history go back: that costs some"
            " microseconds a row, and updated rows are not recognized; `witness: COLUMN` names a time that the insert sets"
        )


NO_RECOGNITION: Final = Witness(kind=WitnessKind.ROW, sql="NULL::bytea")
"""The witness of a table that was not examined yet."""


UNKNOWN_TIMELINE: Final = 0
"""The timeline of a server that refuses to tell it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerMarks:
    """What distinguishes the histories that a server may have had. None: the server refuses the function.

    `boot` changes with a restart and `timeline` with a promotion. The positions in the WAL are those up to which it was
    inserted, flushed, replayed by the last recovery, and received from another server. `xmax` is the snapshot's: each
    transaction below it has begun, and none at or above it. `complete`: no function was refused.
    """

    boot: str = ""
    timeline: int = UNKNOWN_TIMELINE
    inserted: int | None = None
    flushed: int | None = None
    replayed: int | None = None
    received: int | None = None
    xmax: int = 0
    complete: bool = True

    def to_json(self) -> Mapping[str, object]:
        return {
            "boot": self.boot,
            "timeline": self.timeline,
            "inserted": self.inserted,
            "flushed": self.flushed,
            "replayed": self.replayed,
            "received": self.received,
            "xmax": self.xmax,
            "complete": self.complete,
        }


_ENCODER: Final = json.JSONEncoder(separators=(",", ":"))


@dataclass(frozen=True, kw_only=True, slots=True)
class Milestone:
    """How far the watcher was: the highest id, or the highest transaction, that was handled; and until when.

    A transaction at or above `xmax` began when all of this was visible. So its commit comes later in the WAL.
    """

    highest: int
    until: str = ""
    xmax: int = 0

    def to_json(self) -> Mapping[str, object]:
        return {"highest": self.highest, "until": self.until, "xmax": self.xmax}


@dataclass(frozen=True, kw_only=True, slots=True)
class Chunk:
    """The rows of one batch. `before` is the milestone of the batch before it, `after` its own.

    A first chunk holds rows that were there before. Then `before` is None; without such rows it is the beginning of all.

    `xmin` is the xmin of the snapshot in which the rows were read, 0 if it is unknown. `gave_up` says whether ids that were
    missing were given up since the chunk before. `ahead` are the ids given by hand. `at` is when it was made, by `time.time`.
    `unreported` are the numbers of rows that no event names, because `where` skips them or a newer version had replaced them. Under
    their keys, versions of transactions below `handled` were handled before; 0 if that is unknown.
    """

    marks: ServerMarks
    at: float
    after: Milestone
    before: Milestone | None = None
    xmin: int = 0
    gave_up: bool = False
    witness: str = ""
    ahead: Sequence[int] = ()
    unreported: Sequence[int] = ()
    handled: int = 0
    keys: Sequence[Key] = ()
    fingerprints: Sequence[bytes] = ()

    def told_xid(self, number: int) -> int:
        """Return the 64 bits of the xid that wrote the row of this number."""
        xid: int = FINGERPRINT.unpack(self.fingerprints[number])[0]
        return widened(xid, self.marks.xmax)

    def pack(self) -> bytes:
        keys = self.keys
        ids = struct.pack(f"<{len(keys)}q", *keys) if keys and isinstance(keys[0], int) else b""
        header = {
            "marks": self.marks.to_json(),
            "at": self.at,
            "after": self.after.to_json(),
            "before": None if self.before is None else self.before.to_json(),
            "xmin": self.xmin,
            "gave_up": self.gave_up,
            "witness": self.witness,
            "ahead": list(self.ahead),
            "unreported": list(self.unreported),
            "handled": self.handled,
            "keys": len(keys) if ids else list(keys),
        }
        text = _ENCODER.encode(header).encode()
        return b"".join([struct.pack("<I", len(text)), text, ids, *self.fingerprints])

    @classmethod
    def unpack(cls, data: bytes) -> Chunk:
        (length,) = struct.unpack_from("<I", data)
        header: dict[str, Any] = json.loads(data[4 : 4 + length])
        place, keys = 4 + length, header["keys"]
        if isinstance(keys, int):
            keys = struct.unpack_from(f"<{keys}q", data, place)
            place += 8 * len(keys)
        before, after, marks = header["before"], header["after"], header["marks"]
        return cls(
            marks=ServerMarks(
                boot=marks["boot"],
                timeline=marks["timeline"],
                inserted=marks["inserted"],
                flushed=marks["flushed"],
                replayed=marks["replayed"],
                received=marks["received"],
                xmax=marks["xmax"],
                complete=marks["complete"],
            ),
            at=header["at"],
            after=_milestone(after),
            before=None if before is None else _milestone(before),
            xmin=header["xmin"],
            gave_up=header["gave_up"],
            witness=header["witness"],
            ahead=header["ahead"],
            unreported=header.get("unreported", ()),
            handled=header.get("handled", 0),
            keys=keys,
            fingerprints=[data[at : at + FINGERPRINT.size] for at in range(place, len(data), FINGERPRINT.size)],
        )


@dataclass(kw_only=True, slots=True)
class ChunkWindow:
    """The chunks that a position keeps, without their rows: how many each has, and what a new one continues from."""

    newest: Chunk | None = None
    """The newest chunk, without rows."""
    _sizes: dict[int, tuple[float, int]] = field(default_factory=dict)
    """When each chunk was made, and how many rows it has, by number, ascending."""
    _rows: int = 0
    _dropped_at: float = 0.0

    @classmethod
    def of(cls, chunks: Mapping[int, Chunk]) -> ChunkWindow:
        window = cls()
        for number, chunk in sorted(chunks.items()):
            window._remember(number, chunk)
        return window

    @property
    def last_number(self) -> int:
        """The number of the newest chunk; 0 if there is none."""
        return next(reversed(self._sizes), 0)

    def begin(self, chunk: Chunk) -> RowChanges:
        """Replace all chunks by this one."""
        number = self.last_number + 1
        self._sizes.clear()
        self._rows = 0
        self._remember(number, chunk)
        return RowChanges(delete_chunks_below=number, chunks={number: chunk.pack()})

    def add(self, chunk: Chunk) -> RowChanges:
        """Keep a chunk, and drop those that have become too old or too many."""
        number = self.last_number + 1
        self._remember(number, chunk)
        below = None
        is_large = self._rows > MOST_ROWS * SLACK or len(self._sizes) > MOST_CHUNKS * SLACK
        if is_large or chunk.at - self._dropped_at >= DROPPED_EVERY:
            self._dropped_at = chunk.at
            below = self._drop(chunk.at)
        return RowChanges(delete_chunks_below=below, chunks={number: chunk.pack()})

    def _remember(self, number: int, chunk: Chunk) -> None:
        self._sizes[number] = (chunk.at, len(chunk.keys))
        self._rows += len(chunk.keys)
        self.newest = Chunk(marks=chunk.marks, at=chunk.at, after=chunk.after, witness=chunk.witness)

    def _drop(self, now: float) -> int | None:
        """Forget the chunks that may go, and return the number of the first that stays; None if all stay."""
        rows = chunks = batches = 0
        for number, (at, size) in reversed(self._sizes.items()):
            rows, chunks = rows + size, chunks + 1
            is_over = rows > MOST_ROWS or chunks > MOST_CHUNKS or now - at > KEPT_FOR
            if batches >= FEWEST_BATCHES and is_over:
                for old in [each for each in self._sizes if each <= number]:
                    self._rows -= self._sizes.pop(old)[1]
                return number + 1
            batches += size > 0
        return None


def _milestone(values: Mapping[str, Any]) -> Milestone:
    return Milestone(highest=values["highest"], until=values["until"], xmax=values["xmax"])


def key_parts(keys: Iterable[Key], size: int) -> Iterator[list[Key]]:
    """Yield the different keys, at most `size` at a time."""
    unique = [*dict.fromkeys(keys)]
    for start in range(0, len(unique), size):
        yield unique[start : start + size]
