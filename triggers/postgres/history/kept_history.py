"""What one reader keeps of its last batches until they are written, and the changes of history that nobody has resolved."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import anyio

from triggers.base import JsonObject, RowChanges
from triggers.postgres.history.kept_rows import MOST_ROWS, Chunk, ChunkWindow, Key, Milestone, ServerMarks, Witness

NEWEST_CHUNK: Final = "chunk"
"""The member of a state that has the number of the newest chunk. An older release leaves it out when it moves the position."""
IS_BACK: Final = "history_went_back"
"""The member of a state that is true while a person has to say where to continue."""
MOST_CHANGES: Final = 10
"""How many changes of history a position remembers: the newest."""


class KeptHistory:
    """The chunks of one reader's position, and the rows of the chunk that comes next."""

    __slots__ = (
        "_ahead",
        "_begun",
        "_fingerprints",
        "_gave_up",
        "_handled",
        "_keys",
        "_marks",
        "_unreported",
        "_xmin",
        "changes",
        "is_back",
        "kept_at",
        "window",
    )

    def __init__(self) -> None:
        self.window = ChunkWindow()
        self.changes: Sequence[JsonObject] = ()
        """The changes of history that a person has not resolved, the newest last."""
        self.is_back = False
        """Whether the server has shown that its history went back, and the watcher has not healed."""
        self.kept_at = 0.0
        """When the newest marks were read, by anyio's clock."""
        self._begun = RowChanges()
        self.forget()

    def forget(self) -> None:
        """Forget the rows that were not written."""
        self._marks: ServerMarks | None = None
        self._xmin = self._handled = 0
        self._gave_up = False
        self._ahead: list[int] = []
        self._keys: list[Key] = []
        self._fingerprints: list[bytes] = []
        self._unreported: list[int] = []

    @property
    def marks(self) -> ServerMarks | None:
        """The server's marks when they were read last: in the same history it never goes below them."""
        newest = self.window.newest
        return self._marks or (None if newest is None else newest.marks)

    def note(self, marks: ServerMarks, at: float, *, gave_up: bool = False) -> None:
        """Note marks that were read after the last rows, at the moment `at`. The next position gets a chunk."""
        self._marks, self.kept_at, self._gave_up = marks, at, self._gave_up or gave_up

    def note_rows(
        self,
        keys: Sequence[Key],
        fingerprints: Sequence[bytes],
        *,
        xmin: int = 0,
        ahead: Sequence[int] = (),
        unreported: Sequence[int] = (),
        handled: int = 0,
    ) -> None:
        """Note rows that were read in a snapshot with this xmin. No event names those of the numbers `unreported`.

        Versions of transactions below `handled` were handled before these rows were listed.
        """
        self._xmin = min(self._xmin, xmin) if self._keys else xmin
        self._handled = min(self._handled, handled) if self._keys else handled
        self._unreported += [len(self._keys) + number for number in unreported]
        self._keys += keys
        self._fingerprints += fingerprints
        self._ahead += ahead
        if (more := len(self._keys) - MOST_ROWS) > 0:  # a minute of rows that `where` skips
            del self._keys[:more], self._fingerprints[:more]
            self._unreported = [number - more for number in self._unreported if number >= more]

    def begin(self, chunk: Chunk) -> None:
        """Replace all chunks by this one, with the next position."""
        self.forget()
        self.kept_at = anyio.current_time()
        self._begun = self.window.begin(chunk)

    def add_change(self, change: JsonObject) -> None:
        self.changes = [*self.changes, change][-MOST_CHANGES:]

    def take(self, after: Milestone, witness: Witness) -> RowChanges:
        """Return how the chunks change with a position that reaches `after`."""
        begun, self._begun = self._begun, RowChanges()
        newest, marks = self.window.newest, self._marks
        if marks is None or newest is None:
            return begun
        chunk = Chunk(
            marks=marks,
            at=time.time(),
            before=newest.after,
            after=replace(after, xmax=marks.xmax),
            xmin=self._xmin,
            gave_up=self._gave_up,
            witness=witness.sql,
            ahead=self._ahead,
            unreported=self._unreported,
            handled=self._handled,
            keys=self._keys,
            fingerprints=self._fingerprints,
        )
        self.forget()
        added = self.window.add(chunk)
        return replace(
            begun,
            delete_chunks_below=added.delete_chunks_below or begun.delete_chunks_below,
            chunks={**begun.chunks, **added.chunks},
        )
