"""Simulated servers whose history goes back: nothing that they have is lost, or the watcher is blocked, and each rule is needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random

import pytest

from tests.effort import effort
from tests.unit.triggers_postgres.history_model import (
    BY_HASH,
    BY_TIME,
    BY_UPDATE,
    HashLedgerPoller,
    HistoryLedgerPoller,
    HistoryWindowPoller,
    simulate_ids,
    simulate_updates,
)
from triggers.postgres.history.judgement import Decision, Judgement, PresentRow, RowFate, judge, needs_examination
from triggers.postgres.history.kept_rows import FINGERPRINT, Chunk, Key, Milestone, ServerMarks

RUNS = effort(150, 3000)


@pytest.mark.parametrize("poller_class", [HistoryLedgerPoller, HashLedgerPoller])
def test_ids_of_replaced_servers_are_reported_once_or_the_watcher_is_blocked(
    poller_class: type[HistoryLedgerPoller],
) -> None:
    outcomes = [simulate_ids(Random(seed), poller_class) for seed in range(RUNS)]

    assert [number for number, outcome in enumerate(outcomes) if outcome.lost or outcome.repeated] == []
    assert sum(outcome.heals for outcome in outcomes) > RUNS / 2
    assert sum(outcome.blocked for outcome in outcomes) < RUNS / 5


def test_versions_of_replaced_servers_are_reported_or_the_watcher_is_blocked() -> None:
    outcomes = [simulate_updates(Random(seed), HistoryWindowPoller) for seed in range(RUNS)]

    assert [number for number, outcome in enumerate(outcomes) if outcome.lost or outcome.repeated] == []
    assert sum(outcome.heals for outcome in outcomes) > RUNS / 2
    assert sum(outcome.blocked for outcome in outcomes) < RUNS / 5


class NeverExamines(HistoryLedgerPoller):
    def examine(self) -> None:
        self.kept.add(self._chunk([]))


class TrustsTheKeyAlone(HistoryLedgerPoller):
    def witness(self, number: int) -> bytes:  # noqa: ARG002
        return bytes(8)


class ProvesByTheOrderOfReports(HistoryLedgerPoller):
    """Takes a row that is as reported for a proof of all batches before its own, whenever its transaction began."""

    def judge(
        self, chunks: list[Chunk], present: dict[Key, PresentRow], now: ServerMarks, *, is_back: bool
    ) -> Judgement:
        judgement = judge(chunks, present, now, BY_TIME, is_back=is_back)
        proofs = [
            chunk.before.highest
            for chunk in chunks
            if chunk.before is not None
            and any(
                key in present and fingerprint.endswith(present[key].witness)
                for key, fingerprint in zip(chunk.keys, chunk.fingerprints, strict=True)
            )
        ]
        return replace(judgement, reached=max([judgement.reached, *proofs]))


class TrustsEveryRecovery(HistoryLedgerPoller):
    """Takes the end of any recovery for the fork, also of a server that was restored and has crashed since."""

    def judge(
        self, chunks: list[Chunk], present: dict[Key, PresentRow], now: ServerMarks, *, is_back: bool
    ) -> Judgement:
        timeline = chunks[-1].marks.timeline + 1
        elsewhere = replace(now, timeline=timeline, replayed=now.inserted, received=now.inserted)
        return judge(chunks, present, elsewhere, BY_TIME, is_back=is_back)


@pytest.mark.parametrize(
    "poller_class", [NeverExamines, TrustsTheKeyAlone, ProvesByTheOrderOfReports, TrustsEveryRecovery]
)
def test_a_poller_of_ids_that_breaks_a_rule_loses_rows_in_the_same_runs(
    poller_class: type[HistoryLedgerPoller],
) -> None:
    assert any(simulate_ids(Random(seed), poller_class).lost for seed in range(400))


class NeverExaminesVersions(HistoryWindowPoller):
    def examine(self, now: ServerMarks) -> None:  # noqa: ARG002
        self.kept.add(self._chunk())


class KeepsTheFloor(HistoryWindowPoller):
    def set_back(self, until: str) -> None:
        """Leave the floor where it is."""


class KeepsTransactions(HistoryWindowPoller):
    """Goes on as if the server did not hand out the same transactions again."""

    def heal(self, judgement: Judgement, present: dict[Key, PresentRow]) -> None:
        window = self.window
        super().heal(judgement, present)
        self.window = replace(window, floor=self.window.floor, next_floor=self.window.next_floor)


class ForgetsOlderVersions(HistoryWindowPoller):
    def heal(self, judgement: Judgement, present: dict[Key, PresentRow]) -> None:
        super().heal(judgement, present)
        self.again = []


class CountsEveryVersionAsReported(HistoryWindowPoller):
    def unreported(self, numbers: list[int]) -> list[int]:  # noqa: ARG002
        return []


def test_a_poller_of_versions_that_takes_all_of_them_for_reported_repeats_rows_in_the_same_runs() -> None:
    assert any(simulate_updates(Random(seed), CountsEveryVersionAsReported).repeated for seed in range(400))


@pytest.mark.parametrize(
    "poller_class", [NeverExaminesVersions, KeepsTheFloor, KeepsTransactions, ForgetsOlderVersions]
)
def test_a_poller_of_versions_that_breaks_a_rule_loses_rows_in_the_same_runs(
    poller_class: type[HistoryWindowPoller],
) -> None:
    assert any(simulate_updates(Random(seed), poller_class).lost for seed in range(400))


def marks(
    *, boot: str = "a", timeline: int = 1, inserted: int = 100, xmax: int = 50, **positions: int | None
) -> ServerMarks:
    flushed, replayed, received = (positions.get(name) for name in ("flushed", "replayed", "received"))
    return ServerMarks(
        boot=boot,
        timeline=timeline,
        inserted=inserted,
        flushed=inserted if flushed is None else flushed,
        replayed=replayed,
        received=received,
        xmax=xmax,
    )


def chunk(*, number: int, xid: int, xmax: int, **positions: int | None) -> Chunk:
    """A batch of one row, which has the id `number` and was written by `xid`; before it, all below `number` was reported."""
    return Chunk(
        marks=marks(inserted=10 * xmax, xmax=xmax, **positions),
        at=0,
        before=Milestone(highest=number - 1, xmax=xmax - 10),
        after=Milestone(highest=number, xmax=xmax),
        witness=BY_TIME.sql,
        keys=[number],
        fingerprints=[FINGERPRINT.pack(xid, number.to_bytes(8, "big"))],
    )


def there(*numbers: int, reissued: Sequence[int] = ()) -> Mapping[Key, PresentRow]:
    rows: dict[Key, PresentRow] = {number: PresentRow(xid=1, witness=number.to_bytes(8, "big")) for number in numbers}
    return rows | {number: PresentRow(xid=1, witness=bytes(8)) for number in reissued}


FIRST = chunk(number=5, xid=45, xmax=50)
SECOND = chunk(number=9, xid=55, xmax=60)
WAITED_FOR_ITS_DISK = chunk(number=9, xid=45, xmax=60)
"""Its transaction began before the first batch was complete, and was seen after it."""
RESTORED = marks(boot="b", timeline=2, inserted=900, xmax=90, replayed=450)
PROMOTED = marks(boot="b", timeline=2, inserted=900, xmax=90, replayed=550, received=550)

CASES: Mapping[str, tuple[list[Chunk], Mapping[Key, PresentRow], ServerMarks, tuple[Decision, int]]] = {
    "nothing is as it was": ([FIRST, SECOND], {}, RESTORED, (Decision.BLOCKED, 0)),
    "a row proves what was complete before it began": ([FIRST, SECOND], there(9), RESTORED, (Decision.HEAL, 9)),
    "a row that began earlier proves only itself": (
        [replace(FIRST, before=Milestone(highest=4, xmax=46)), WAITED_FOR_ITS_DISK],
        there(9),
        RESTORED,
        (Decision.BLOCKED, 0),
    ),
    "the first row proves what is before it": ([FIRST, SECOND], there(5), RESTORED, (Decision.HEAL, 5)),
    "the fork proves the batches below it": ([FIRST, SECOND], {}, PROMOTED, (Decision.HEAL, 5)),
    "the fork proves everything": ([FIRST, SECOND], {}, replace(PROMOTED, replayed=600), (Decision.SAME, 0)),
    "a recovery from an archive has no known fork": (
        [FIRST, SECOND],
        {},
        replace(PROMOTED, received=None),
        (Decision.BLOCKED, 0),
    ),
    "a fork that rows contradict is none": (
        [FIRST, SECOND],
        there(reissued=[9]),
        replace(PROMOTED, replayed=600),
        (Decision.BLOCKED, 0),
    ),
    "two timelines further": ([FIRST, SECOND], {}, replace(PROMOTED, timeline=3), (Decision.BLOCKED, 0)),
    "an ordinary restart": ([FIRST, SECOND], {}, marks(boot="b", inserted=700, xmax=60), (Decision.SAME, 0)),
    "a crash that lost nothing": (
        [FIRST, SECOND],
        {},
        marks(boot="b", inserted=700, xmax=60, replayed=600),
        (Decision.SAME, 0),
    ),
    "a crash that lost the last batch": (
        [FIRST, chunk(number=9, xid=55, xmax=60, flushed=550)],
        {},
        marks(boot="b", inserted=900, xmax=90, replayed=560),
        (Decision.HEAL, 5),
    ),
    "a copy whose recovery ended below the flushed position": (
        [FIRST, SECOND],
        {},
        marks(boot="b", inserted=900, xmax=90, replayed=560),
        (Decision.BLOCKED, 0),
    ),
    "another promotion to the same timeline": (
        [FIRST, SECOND],
        there(5),
        marks(boot="b", inserted=900, xmax=90, replayed=700, received=700),
        (Decision.HEAL, 5),
    ),
    "an id that was handed out again, after a restart": (
        [FIRST, SECOND],
        there(5, reissued=[9]),
        marks(boot="b", inserted=900, xmax=90),
        (Decision.HEAL, 5),
    ),
    "an id below a certain one was handed out again": (
        [FIRST, SECOND],
        there(9, reissued=[5]),
        RESTORED,
        (Decision.BLOCKED, 9),
    ),
    "a transaction below the last": (
        [FIRST, SECOND],
        there(5),
        marks(boot="b", inserted=700, xmax=59),
        (Decision.HEAL, 5),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_rows_and_marks_prove(case: str) -> None:
    chunks, present, now, expected = CASES[case]
    judgement = judge(chunks, present, now, BY_TIME)
    assert (judgement.decision, judgement.reached) == expected


@pytest.mark.parametrize(
    ("row", "fate"),
    [
        (PresentRow(xid=45, witness=b"reported"), RowFate.AS_TOLD),
        (PresentRow(xid=45, witness=b"another."), RowFate.REISSUED),
        (PresentRow(xid=39, witness=b"reported"), RowFate.OLDER),
        (PresentRow(xid=47, witness=b"reported"), RowFate.CHANGED),
    ],
)
def test_a_hash_recognizes_a_row_with_its_transaction_only(row: PresentRow, fate: RowFate) -> None:
    kept = replace(FIRST, xmin=40, witness="hash", fingerprints=[FINGERPRINT.pack(45, b"reported")])
    [fates] = judge([kept], {5: row}, RESTORED, BY_HASH).fates.values()
    assert fates is fate


def test_rows_that_were_kept_with_another_witness_are_not_recognized() -> None:
    kept = replace(FIRST, xmin=40, witness="hash of fewer columns", fingerprints=[FINGERPRINT.pack(45, b"reported")])
    [fates] = judge([kept], {5: PresentRow(xid=45, witness=b"reported")}, RESTORED, BY_HASH).fates.values()
    assert fates is RowFate.CHANGED


def test_an_older_version_proves_that_the_reported_one_was_taken_back() -> None:
    kept = Chunk(
        marks=marks(),
        at=0,
        before=Milestone(highest=30, until="2", xmax=35),
        after=Milestone(highest=40, until="3", xmax=50),
        xmin=38,
        witness=BY_UPDATE.sql,
        keys=["1", "2"],
        fingerprints=[FINGERPRINT.pack(xid, b"12345678") for xid in (40, 39)],
    )
    present: Mapping[Key, PresentRow] = {
        "1": PresentRow(xid=20, witness=b"00000000"),
        "2": PresentRow(xid=39, witness=b"12345678"),
    }
    judgement = judge([kept], present, marks(boot="b", inserted=120, xmax=60), BY_UPDATE)
    assert (judgement.decision, judgement.reached, judgement.until) == (Decision.HEAL, 39, "2")


REPLACED: Mapping[str, tuple[list[tuple[int, bool]], int, Decision, set[Key]]] = {
    "a restart, after two versions of one batch": ([(0, True), (45, False)], 45, Decision.SAME, set()),
    "readers have the version that stands": ([(45, False), (0, True)], 45, Decision.HEAL, {"1"}),
    "readers have the version that was taken back": ([(42, False), (45, False), (0, True)], 42, Decision.HEAL, set()),
    "the replaced version stands, and was never reported": ([(42, False), (0, True)], 45, Decision.HEAL, set()),
    "what stands is older than all that was kept": ([(0, True)], 29, Decision.HEAL, {"1"}),
    "what stands may have been replaced before it was read": ([(0, True)], 31, Decision.HEAL, set()),
}
"""Versions of one row, by transactions and whether a newer one had replaced them before they were read; the one that stands; and
the keys that readers have."""


@pytest.mark.parametrize("case", REPLACED)
def test_a_version_that_readers_have_is_held_although_newer_ones_were_replaced_before_they_were_read(case: str) -> None:
    versions, stands, decision, held = REPLACED[case]
    xids = [*(xid for xid, _ in versions), 44]
    kept = Chunk(
        marks=marks(),
        at=0,
        before=Milestone(highest=30, until="2", xmax=35),
        after=Milestone(highest=40, until="3", xmax=50),
        xmin=48,
        handled=30,
        witness=BY_UPDATE.sql,
        keys=[*["1"] * len(versions), "another row"],
        unreported=[number for number, (_, is_replaced) in enumerate(versions) if is_replaced],
        fingerprints=[FINGERPRINT.pack(xid, xid.to_bytes(8, "big")) for xid in xids],
    )
    present: Mapping[Key, PresentRow] = {
        "1": PresentRow(xid=stands, witness=stands.to_bytes(8, "big")),
        "another row": PresentRow(xid=44, witness=(44).to_bytes(8, "big")),
    }
    judgement = judge([kept], present, marks(boot="b", inserted=120, xmax=60), BY_UPDATE)
    assert (judgement.decision, {*judgement.held} - {"another row"}) == (decision, held)


def test_a_function_that_is_refused_is_a_reason_to_examine_every_connection() -> None:
    kept = marks()
    assert not needs_examination(kept, kept)
    assert needs_examination(kept, replace(kept, complete=False))
    assert needs_examination(kept, replace(kept, replayed=90))
    assert needs_examination(kept, replace(kept, xmax=49))
