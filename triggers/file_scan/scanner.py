"""The algorithm of `s3.new_files` and `file.new_files`, without I/O: pages go in, new versions and positions come out.

Three rules make it exact. A scan is listed in key order. Each page's new versions are committed together with the cursor
behind it, so that a crash resumes by key. The horizon moves only when a scan has come to its end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from triggers.base import JsonObject, Position, StoredPosition
from triggers.file_scan.rules.copies import MOST_WAITING, Copies, CopyRule, ManyCopies
from triggers.file_scan.rules.modes import Algorithm
from triggers.file_scan.rules.waiting import NOTHING_LAST, EmittedLast
from triggers.file_scan.state.handled import HandledVersions, Removals
from triggers.file_scan.state.masses import FEWEST, Tally, vanished_after
from triggers.file_scan.state.scan_state import ScanState, Start, text_of
from triggers.file_scan.versions import FileVersion, Moment, ScanPage

QUIET_COMMIT_SECONDS: Final = 60.0
"""The least time between two writes that no new version causes: the progress of a scan that a crash would resume, and
what became absent, came back or was forgotten. Many that come back without a finding do not wait. A clock that moved on
(horizon, `up_to`) alone is never written."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """The new versions of one page. `position` None: nothing is worth a write, and `versions` is empty."""

    versions: Sequence[FileVersion]
    watermark: JsonObject
    position: Position | None
    stopped_at: FileVersion | None = None
    """A version that no event can name: the scan must not go on."""
    copied: ManyCopies | None = None
    """The copies about which a person must decide: the scan is over, and has emitted none of them."""


class _UnnamedVersion(Exception):
    """A new version was met that no event can name."""

    def __init__(self, version: FileVersion) -> None:
        super().__init__(version.key)
        self.version = version


class Scanner:
    """One watcher's scans, from a new start or a committed position. Commit each position it returns before the next page."""

    __slots__ = (
        "_algorithm",
        "_handled",
        "_holds_back",
        "_is_resumed",
        "_min_age",
        "_state",
        "_stops",
        "_tally",
        "_written",
        "_written_at",
        "copies",
        "last",
    )

    def __init__(
        self,
        algorithm: Algorithm,
        stored: StoredPosition | None,
        *,
        start: Start,
        min_age: int,
        now: float,
        stops: bool = False,
        forget_after: int = 0,
        is_last: Callable[[FileVersion], bool] | None = None,
        copy_rule: CopyRule | None = None,
        removals: Removals | None = None,
    ) -> None:
        """`min_age` and `forget_after` in microseconds; `now` on the same clock as in `advance`, in seconds.

        `stops`: a new version that no event can name stops the scan; else it counts as handled, as all others. `is_last` says
        which versions are emitted last; None: there are none. `copy_rule` None: copies are emitted, however many. `removals` may
        change at any time.
        """
        self._stops = stops
        self._algorithm = algorithm
        self._state = ScanState.starting(start) if stored is None else ScanState.from_json(stored.state)
        rows = {} if stored is None else stored.rows
        self._handled = HandledVersions(rows, forget_after=forget_after, removals=removals)
        self.copies = Copies(self._handled, copy_rule)
        """The copies that wait for the end of the scan."""
        self._min_age = min_age
        self.last = NOTHING_LAST if is_last is None else EmittedLast(is_last)
        """The versions that wait for all else."""
        self._tally = Tally()
        self._written_at = now
        self._written = None if stored is None else self._state
        """The state of the stored position; None: nothing is stored."""
        self._holds_back = self._is_resumed = self._state.began is not None
        """The scan met a version that was too young, or may have met one before it was resumed."""

    @property
    def cursor(self) -> str | None:
        """The key behind which the next page for `advance` begins."""
        return self._state.cursor

    def advance(self, page: ScanPage, *, now: float) -> Step:
        """Return what the next page of the scan brings: the page behind `cursor`."""
        begins = self._state.began is None
        if begins:
            self._begin(page)
        must_write = self._written is None or (begins and self._state.is_baseline)
        watermark = {"from": text_of(self._state.up_to), "to": text_of(self._state.reached(self._min_age))}
        versions, unnamed = self._new_versions(page)
        is_over = unnamed is not None or (page.last is None and not self._is_resumed)
        copied = self.copies.many(self._state.copied_since) if is_over else None
        if copied is None and unnamed is not None:
            self._state = self._state.behind(versions)
            versions = [*versions, *self.copies.take(MOST_WAITING)]
        else:
            must_write |= self._pass(page, copied, now)
        position = self._position(now) if versions or must_write else None
        return Step(versions=versions, watermark=watermark, position=position, stopped_at=unnamed, copied=copied)

    def _begin(self, page: ScanPage) -> None:
        self._holds_back = self._is_resumed = False
        state = self._algorithm.begin(self._state, page, self._handled)
        self.last.begin()
        self._handled.begin()
        self.copies.begin()
        self._state = replace(state, records_all=self.last.is_used or self.copies.is_used)

    def _new_versions(self, page: ScanPage) -> tuple[Sequence[FileVersion], FileVersion | None]:
        """The new versions of a page up to the first one at which the scan must stop, and that one."""
        versions: list[FileVersion] = []
        candidates = self._algorithm.candidates(page, self._state, self._handled)
        try:
            versions.extend(version for version in candidates if self._is_new(version, page.clock))
        except _UnnamedVersion as stop:
            return versions, stop.version
        return versions, None

    def _pass(self, page: ScanPage, copied: ManyCopies | None, now: float) -> bool:
        """Move the state behind a page, and return whether that alone is worth a write. Many copies end the scan."""
        if copied is not None:
            self._state = self._state.abandoned(copied.since)
            return self._state != self._written
        is_due = now - self._written_at >= QUIET_COMMIT_SECONDS
        is_unfinished = self._written is not None and self._written.is_unfinished  # the end of that scan is written
        if page.last is not None:
            self._state = replace(self._state, cursor=page.last)
            return (is_due and is_unfinished) or self._handled.is_much_changed
        self._end()
        # Stored as absent without a finding, many would not be missed after a kill if they vanished again.
        are_back = self._handled.returned >= FEWEST and self._written is not None and self._written.vanished is None
        return is_unfinished or are_back or (is_due and self._has_quiet_changes)

    def emit_last(self, versions: Sequence[FileVersion], now: float) -> Step:
        """Return a step that emits some of `last.ready`, after the end of a scan. The others wait for the next one."""
        self.last.take(versions)
        for version in versions:
            self._handled.add(version.fingerprint, version.modified)
        return self.emitted_again(versions, now)

    def emitted_again(self, versions: Sequence[FileVersion], now: float) -> Step:
        """Return a step that emits these versions at the position as it is, which counts them as handled, such as `copies`."""
        watermark = {"from": text_of(self._state.up_to), "to": text_of(self._state.up_to)}
        return Step(versions=versions, watermark=watermark, position=self._position(now))

    @property
    def state(self) -> ScanState:
        """The state of the scan under way, or of the last one."""
        return self._state

    @property
    def is_settled(self) -> bool:
        """Whether a scan of an unchanged source would yield nothing at any time, and nothing waits to be written."""
        return not (
            self._written is None or self._holds_back or self._has_quiet_changes or self._state.began is not None
        )

    @property
    def _has_quiet_changes(self) -> bool:
        written = self._written or self._state
        return self._handled.has_quiet_changes or self._state.vanished != written.vanished

    @property
    def has_selected(self) -> bool:
        """Whether it remembers any version, emitted or from before the start."""
        return len(self._handled) > 0

    @property
    def up_to(self) -> Moment | None:
        """The moment before which all versions that were visible and old enough are handled; None before the first whole scan."""
        return self._state.up_to

    @property
    def takes_hints(self) -> bool:
        """Whether `look_up` may be called: after the first page, and after the end of a baseline."""
        return self._written is not None and not self._state.is_baseline

    def look_up(self, versions: Iterable[FileVersion], *, clock: Moment, now: float) -> Step:
        """Return a step with the new ones of the versions that a hint led to. The scans themselves do not notice.

        Call it between two pages or two scans. Versions that are emitted last and copies are left to the scans, and those below the
        horizon of the scan under way to that scan, which may emit them without recording them.
        """
        state = self._state
        horizon = state.horizon if state.next_horizon is None else state.next_horizon
        some = (version for version in versions if not self.last.selects(version))
        recent = (version for version in some if horizon is None or version.modified >= horizon)
        before = replace(self._tally)
        at_once = self.copies.without(recent, is_scanning=state.began is not None)
        new = [version for version in at_once if self._is_new(version, clock)]
        self._tally.note_hints(before)
        watermark = {"from": text_of(state.up_to), "to": text_of(state.up_to)}
        return Step(versions=new, watermark=watermark, position=self._position(now) if new else None)

    def _is_new(self, version: FileVersion, clock: Moment) -> bool:
        """Whether to emit the version. It is recorded when it is handled now and a later scan could meet it again."""
        state, modified = self._state, version.modified
        if state.horizon is not None and modified < state.horizon:
            return False
        name = version.fingerprint
        if name in self._handled.members:  # most are, most of the time
            self._tally.met += 1
            self._handled.touch(name, modified)
            return False
        if self._is_handled(version, name, clock):
            return False
        is_met_again, is_old = state.meets_again(modified), state.is_in_baseline(modified)
        self._tally.fresh += 1
        if not is_old:
            if is_met_again and self._waits(version, clock):
                self._holds_back = True
                return False
            if self._stops and version.fault is not None:
                raise _UnnamedVersion(version)
        if is_met_again:
            self._handled.add(name, modified)
        return not is_old

    def _waits(self, version: FileVersion, clock: Moment) -> bool:
        """Whether the version waits: it is too young, all else comes before it, or it is a copy."""
        if self._min_age and version.modified > clock - self._min_age:
            return True
        if self.last.selects(version) and version.fault is None:
            self.last.wait(version)
        elif (self._stops and version.fault is not None) or not self.copies.hold(version):
            return False
        self._state = self._state.ending_at(version.modified)
        return True

    def _is_handled(self, version: FileVersion, name: int, clock: Moment) -> bool:
        """Whether a version that is not known to be there was handled before. It is recorded if a later scan could meet it again."""
        is_met_again = self._state.meets_again(version.modified)
        former = self._handled.name_of(version, name, clock)
        if former is not None:
            self._tally.met += 1
            if is_met_again and former == name:
                self._handled.take_back(name, version.modified)
            elif is_met_again:
                self._handled.rename(former, name, version.modified)
            return True
        if self._state.adopts and self.copies.adopt(version):
            self._tally.met += 1
            return True
        is_passed = self._state.is_passed(version)
        if is_passed and is_met_again:
            self._handled.add(name, version.modified)
        return is_passed

    def _end(self) -> None:
        state, began = self._state, self._state.began or 0
        is_left = self._is_resumed and self.copies.leave()  # a whole scan can tell how many they are
        ended = ScanState(
            horizon=state.next_horizon,
            up_to=state.reached(self._min_age),
            vanished=state.vanished,
            copied=state.copied if is_left else None,
        )
        count = self._algorithm.end(ended, self._handled, began, self._tally)
        self._handled.forget_expired(began)
        if state.reselected is not None:  # what the new selection leaves out is not listed, and did not vanish
            count = None
        self._tally = self._tally.next()
        absent = partial(self._algorithm.count_absent, self._handled)
        self._state = replace(ended, vanished=vanished_after(state.vanished, count, absent, began))

    def _position(self, now: float) -> Position:
        self._written_at = now
        self._written = self._state
        return Position(
            watermark=self._state.watermark(len(self._handled)),
            state=self._state.to_json(),
            rows=self._handled.take_changes(),
        )
