"""Whether a server still has the history that a watcher reported, and where the watcher continues if not (pure).

A restored server, a promoted standby, and a server that lost asynchronous commits in a crash hold a *prefix* of the old WAL.
The order in which commits become visible is not their order in the WAL: one that waits for its disk or for a standby is seen
after asynchronous ones that follow it. So a row that is as it was reported proves only the batches that were complete before
its transaction began. The end of the replayed WAL proves every batch below it, where that end is known to be the fork. A row
that is gone proves nothing, because it may have been deleted. A row that shows a version older than the reported one, or
another row under the same key, proves that something was taken back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from triggers.postgres.history.kept_rows import (
    FINGERPRINT,
    UNKNOWN_TIMELINE,
    Chunk,
    Key,
    Milestone,
    ServerMarks,
    Witness,
    WitnessKind,
)


class RowFate(Enum):
    """What became of a row that was reported."""

    AS_TOLD = "as reported"
    GONE = "gone"
    OLDER = "older"
    """It shows a version from before the reported one."""
    REISSUED = "reissued"
    """Another row stands under its key."""
    CHANGED = "changed"
    """It was updated, or its key was handed out again: that cannot be distinguished."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PresentRow:
    """A row as the server shows it now. `xid` has 64 bits."""

    xid: int
    witness: bytes


class Decision(Enum):
    SAME = "same"
    """Nothing that was reported was taken back: an ordinary restart, or all of it is proven."""
    HEAL = "heal"
    """Something may have been taken back. Continue from `Judgement.reached`."""
    BLOCKED = "blocked"
    """Nothing is proven, or what stands under some keys cannot be told."""


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """What an examination came to. `fates` are those of the keys' newest records.

    `reached` is the highest id, or the highest transaction, that is certain to be in the new history. `until` says until
    when everything is proven. `gave_up`: ids were given up since the proven batches. `held` are the keys of rows that stand at
    the version that was reported last, so readers have it, although newer ones were read.
    """

    decision: Decision
    fates: Mapping[Key, RowFate] = field(default_factory=dict)
    reached: int = 0
    until: str = ""
    gave_up: bool = False
    held: Collection[Key] = ()
    unclear: Sequence[int] = ()
    """Mode `id`: ids of rows of which nothing tells whether they were reported."""

    def keys(self, *fates: RowFate) -> list[Key]:
        return [key for key, fate in self.fates.items() if fate in fates]

    @property
    def counts(self) -> Mapping[RowFate, int]:
        return Counter(self.fates.values())


def needs_examination(kept: ServerMarks, now: ServerMarks) -> bool:
    """Return whether the server may have another history than the one in which `kept` were its marks."""
    if not now.complete or (kept.boot, kept.timeline, kept.replayed) != (now.boot, now.timeline, now.replayed):
        return True
    return _went_back(kept, now)


def judge(
    chunks: Sequence[Chunk],
    present: Mapping[Key, PresentRow],
    now: ServerMarks,
    witness: Witness,
    *,
    is_back: bool = False,
) -> Judgement:
    """Judge the rows of the chunks, which ascend, by what the server shows now. `is_back`: its sequence stands below ours."""
    records, kept = _Records.of(chunks, present, witness), chunks[-1].marks
    is_back = is_back or bool(records.taken_back) or shows_a_loss(kept, now)
    if _is_of_one_timeline(kept, now) and not is_back:
        return Judgement(decision=Decision.SAME, fates=records.fates)
    fork = fork_of(kept, now)
    if fork is not None and any(_is_below(chunks[place], fork) for place in records.taken_back):
        fork = None  # it contradicts the rows
    if fork is not None and _is_below(chunks[-1], fork):
        return Judgement(decision=Decision.SAME, fates=records.fates, until=chunks[-1].after.until)
    judgement = _healed(chunks, records, fork)
    if witness.kind is WitnessKind.UPDATE:
        return replace(judgement, held=_held(chunks, present, witness))
    unclear = _unclear(judgement)
    return replace(judgement, decision=Decision.BLOCKED, unclear=unclear) if unclear else judgement


def _is_of_one_timeline(kept: ServerMarks, now: ServerMarks) -> bool:
    """Return whether no promotion lies between these marks. Where the timeline is refused, a server that runs on has had none."""
    if UNKNOWN_TIMELINE in {kept.timeline, now.timeline}:
        return kept.boot == now.boot
    return kept.timeline == now.timeline


def is_another_timeline(before: int, now: int) -> bool:
    """Return whether the timeline is known to have changed."""
    return before != now and UNKNOWN_TIMELINE not in {before, now}


def shows_a_loss(kept: ServerMarks, now: ServerMarks) -> bool:
    """Return whether the marks of a server of the same timeline show that commits may have been taken back.

    A standby that was promoted has received WAL, and an ordinary restart forgets that. So another boot that has received some
    is another promotion to the same timeline.
    """
    is_promoted = now.received is not None and now.boot != kept.boot
    return is_promoted or _went_back(kept, now) or _replayed_less(kept, now)


def fork_of(kept: ServerMarks, now: ServerMarks) -> int | None:
    """Return the end of what the server shares with the old history, where the end of its last recovery is certain to be that.

    That is so after a promotion: then the server received the WAL, and the timeline is the next one. It is also so after a crash
    of the same server: then the end lies between what was flushed and what was inserted when it was last seen.
    """
    end = now.replayed
    if (
        end is None
        or UNKNOWN_TIMELINE in {kept.timeline, now.timeline}
        or (end, now.boot) == (kept.replayed, kept.boot)
    ):
        return None
    if now.timeline == kept.timeline + 1:
        return end if now.received is not None else None
    if now.timeline == kept.timeline and now.received is None and None not in (kept.flushed, kept.inserted):
        return end if (kept.flushed or 0) <= end < (kept.inserted or 0) else None
    return None


@dataclass(frozen=True, kw_only=True)
class _Records:
    """The fates of the keys' newest records, with the place of each record's chunk, and what rows that are as reported prove.

    `newest_xid` is the highest transaction that wrote a row that is as reported: it proves what was complete before it began.
    `highest` is the highest id, or transaction, of a row that is as reported. A row with an older version under an id may be
    another row, which the new server has inserted.
    """

    fates: Mapping[Key, RowFate]
    newest: Mapping[Key, int]
    newest_xid: int
    highest: int | None

    @property
    def taken_back(self) -> Sequence[int]:
        """The places of the chunks with rows that prove that something was taken back."""
        return [self.newest[key] for key, fate in self.fates.items() if fate in {RowFate.OLDER, RowFate.REISSUED}]

    @classmethod
    def of(cls, chunks: Sequence[Chunk], present: Mapping[Key, PresentRow], witness: Witness) -> _Records:
        fates: dict[Key, RowFate] = {}
        newest: dict[Key, int] = {}
        xids, marks = [0], list[int]()
        for place in reversed(range(len(chunks))):
            chunk, by_hand = chunks[place], frozenset(chunks[place].ahead)
            for number, key in reversed([*enumerate(chunk.keys)]):
                row = present.get(key)
                fate = _fate(chunk, number, row, witness)
                if fate is RowFate.AS_TOLD:
                    xids.append(chunk.told_xid(number))
                if key not in newest:
                    fates[key], newest[key] = fate, place
                elif fate is RowFate.AS_TOLD and fates[key] is not RowFate.AS_TOLD:
                    fates[key] = RowFate.OLDER  # an earlier record of the same key is what stands there
                if row is not None and key not in by_hand and fate is RowFate.AS_TOLD:
                    marks.append(row.xid if isinstance(key, str) else key)
        return cls(
            fates=dict(reversed(fates.items())),
            newest=newest,
            newest_xid=max(xids),
            highest=max(marks, default=None),
        )


def _fate(chunk: Chunk, number: int, row: PresentRow | None, witness: Witness) -> RowFate:
    if row is None:
        return RowFate.GONE
    if chunk.witness != witness.sql:  # the table, or the configuration, has changed since
        return RowFate.CHANGED
    xid, told = FINGERPRINT.unpack(chunk.fingerprints[number])
    is_same = row.witness == told
    if witness.kind is WitnessKind.TIME or row.xid % 2**32 == xid:
        return RowFate.AS_TOLD if is_same else RowFate.REISSUED
    return RowFate.OLDER if row.xid < chunk.xmin else RowFate.CHANGED


def _healed(chunks: Sequence[Chunk], records: _Records, fork: int | None) -> Judgement:
    """Return what is certain, by the rows and the fork; blocked if nothing is.

    A row alone is enough behind a first chunk, which holds the newest rows of all. Else a milestone must be proven, because
    rows that were reported before the oldest chunk are no longer known.
    """
    proven, first_open = _newest_proven(chunks, records.newest_xid, fork)
    certain = [*([] if proven is None else [proven.highest]), *([] if records.highest is None else [records.highest])]
    if not certain or (proven is None and chunks[0].before is not None):
        return Judgement(decision=Decision.BLOCKED, fates=records.fates)
    return Judgement(
        decision=Decision.HEAL,
        fates=records.fates,
        reached=max(certain),
        until="" if proven is None else proven.until,
        gave_up=any(chunk.gave_up for chunk in chunks[first_open:]),
    )


def _held(chunks: Sequence[Chunk], present: Mapping[Key, PresentRow], witness: Witness) -> Collection[Key]:
    """Return the keys of rows that stand at the version that was reported last.

    Where no kept version was reported, that is so if the row's transaction was handled before all that are kept.
    """
    reported: dict[Key, RowFate] = {}
    handled: dict[Key, int] = {}
    for chunk in reversed(chunks):
        unreported = frozenset(chunk.unreported)
        for number, key in reversed([*enumerate(chunk.keys)]):
            handled[key] = chunk.handled
            if number not in unreported and key not in reported:
                reported[key] = _fate(chunk, number, present.get(key), witness)
    return {
        key
        for key, row in present.items()
        if (reported[key] is RowFate.AS_TOLD if key in reported else row.xid < handled.get(key, 0))
    }


def _newest_proven(chunks: Sequence[Chunk], newest_xid: int, fork: int | None) -> tuple[Milestone | None, int]:
    """Return the newest milestone that is proven, if any is, and the place of the first chunk that is not."""
    before = chunks[0].before
    proven, first_open = (before if before is not None and before.xmax <= newest_xid else None), 0
    for place, chunk in enumerate(chunks):
        if chunk.marks.xmax <= newest_xid or (fork is not None and _is_below(chunk, fork)):
            proven, first_open = chunk.after, place + 1
    return proven, first_open


def _is_below(chunk: Chunk, fork: int) -> bool:
    return chunk.marks.inserted is not None and chunk.marks.inserted <= fork


def _unclear(judgement: Judgement) -> list[int]:
    """Return the ids that cannot be told: updated or handed out again above what is certain, or another row below that."""
    ids = [
        *(key for key in judgement.keys(RowFate.CHANGED) if isinstance(key, int) and key > judgement.reached),
        *(key for key in judgement.keys(RowFate.REISSUED) if isinstance(key, int) and key <= judgement.reached),
    ]
    return sorted(ids)


def _went_back(kept: ServerMarks, now: ServerMarks) -> bool:
    inserted = kept.inserted is not None and now.inserted is not None and now.inserted < kept.inserted
    return inserted or now.xmax < kept.xmax


def _replayed_less(kept: ServerMarks, now: ServerMarks) -> bool:
    """Return whether the last recovery, since the marks were kept, ended before them."""
    if now.replayed is None or kept.inserted is None or (now.replayed, now.boot) == (kept.replayed, kept.boot):
        return False
    return now.replayed < kept.inserted
