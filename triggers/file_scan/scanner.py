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
from triggers.file_scan.rules.chain import HoldingRule, NewVersions, PageRule
from triggers.file_scan.rules.copies import MOST_WAITING, Copies, CopyRule, ManyCopies
from triggers.file_scan.rules.modes import Algorithm
from triggers.file_scan.rules.waiting import EmittedLast, MinAge, StopAtFault
from triggers.file_scan.state.handled import HandledVersions, Removals, unknown
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


class Scanner:
    """One watcher's scans, from a new start or a committed position. Commit each position it returns before the next page."""

    __slots__ = (
        "_adoption",
        "_algorithm",
        "_handled",
        "_holding_rules",
        "_holds_back",
        "_is_resumed",
        "_min_age",
        "_rules",
        "_state",
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
        self._algorithm = algorithm
        self._state = ScanState.starting(start) if stored is None else ScanState.from_json(stored.state)
        rows = {} if stored is None else stored.rows
        self._handled = HandledVersions(rows, forget_after=forget_after, removals=removals)
        self._min_age = min_age
        self.last = None if is_last is None else EmittedLast(is_last)
        """The versions that wait for all else."""
        self.copies = None if copy_rule is None else Copies(self._handled, copy_rule)
        """The copies that wait for the end of the scan."""
        self._adoption = (self.copies or Copies(self._handled, None)) if self._state.adopts else None
        """Counts copies as handled, in the first whole scan after a person decided so."""
        self._holding_rules: Sequence[HoldingRule] = [rule for rule in (self.last, self.copies) if rule is not None]
        self._rules: Sequence[PageRule] = [
            *([MinAge(min_age)] if min_age else []),
            *([StopAtFault()] if stops else []),
            *self._holding_rules,
        ]
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
        candidates = self._algorithm.candidates(page, self._state, self._handled, self._tally)
        new = self._new_versions(candidates, page.clock)
        versions: Sequence[FileVersion] = [*new.versions.values()]
        is_over = new.stopped_at is not None or (page.last is None and not self._is_resumed)
        copied = self.copies.many(self._state.copied_since) if is_over and self.copies is not None else None
        if copied is None and new.stopped_at is not None:
            versions = self._stop_behind(versions)
        else:
            must_write |= self._pass(page, copied, now)
        position = self._position(now) if versions or must_write else None
        return Step(versions=versions, watermark=watermark, position=position, stopped_at=new.stopped_at, copied=copied)

    def _begin(self, page: ScanPage) -> None:
        self._holds_back = self._is_resumed = False
        state = self._algorithm.begin(self._state, page, self._handled)
        self._handled.begin()
        if self._adoption is not None:
            self._adoption.begin()
        holding = [rule for rule in self._holding_rules if rule.begin()]
        records_all = len(holding) > 0
        self._state = state if state.records_all is records_all else replace(state, records_all=records_all)

    def _stop_behind(self, versions: Sequence[FileVersion]) -> Sequence[FileVersion]:
        """Move the state behind the last of these new versions, and return them with the copies that were listed before."""
        self._state = self._state.behind(versions)
        return versions if self.copies is None else [*versions, *self.copies.take(MOST_WAITING)]

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
        if self.last is not None:
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
        recent: Sequence[FileVersion] = [each for each in versions if horizon is None or each.modified >= horizon]
        for rule in self._holding_rules:
            recent = rule.reported_at_once(recent, is_scanning=state.began is not None)
        before = replace(self._tally)
        candidates, _ = unknown(self._handled, recent, since=None)
        new = [*self._new_versions(candidates, clock).versions.values()]
        self._tally.note_hints(before)
        watermark = {"from": text_of(state.up_to), "to": text_of(state.up_to)}
        return Step(versions=new, watermark=watermark, position=self._position(now) if new else None)

    def _new_versions(self, candidates: Iterable[tuple[int, FileVersion]], clock: Moment) -> NewVersions:
        """Return the versions to report now, and those that wait. What is handled and could be met again is recorded."""
        since = self._state.met_again_since
        versions = {name: each for name, each in candidates if not self._is_handled(name, each, clock, since)}
        new = NewVersions(versions=versions, clock=clock, since=since)
        if versions:
            new = self._apply_rules(new)
        for name, version in new.versions.items():
            if since is None or version.modified >= since:
                self._handled.add(name, version.modified)
        return new

    def _apply_rules(self, new: NewVersions) -> NewVersions:
        """Return what the rules leave of new versions. The horizon will not pass those that wait."""
        for rule in self._rules:
            new = rule(new)
        if new.waiting:
            self._holds_back = True
            self._state = self._state.ending_at(min(version.modified for version in new.waiting.values()))
        return new

    def _is_handled(self, name: int, version: FileVersion, clock: Moment, since: Moment | None) -> bool:
        """Whether a version that is not there by its fingerprint is handled. It is recorded if later scans, from `since` on, could meet it."""
        state, modified = self._state, version.modified
        if state.horizon is not None and modified < state.horizon:
            return True
        is_met_again = since is None or modified >= since
        if self._handled.recognizes(name, version, clock, records=is_met_again) or (
            self._adoption is not None and self._adoption.adopt(name, modified)
        ):
            self._tally.met += 1
            return True
        is_passed = state.reselected is not None and state.is_passed(version)
        self._tally.fresh += not is_passed
        if not is_passed and not state.is_in_baseline(modified):
            return False
        if is_met_again:
            self._handled.add(name, modified)
        return True

    def _end(self) -> None:
        state, began = self._state, self._state.began or 0
        # A whole scan can tell how many copies there are.
        is_left = self._is_resumed and self.copies is not None and self.copies.leave()
        ended = ScanState(
            horizon=state.next_horizon,
            up_to=state.reached(self._min_age),
            vanished=state.vanished,
            copied=state.copied if is_left else None,
        )
        count = self._algorithm.end(ended, self._handled, began, self._tally)
        self._handled.forget_expired(began)
        if self._adoption is not None and self.copies is None:
            self._handled.added = None  # nobody asks for copies any more
        self._adoption = None
        if state.reselected is not None:  # what the new selection leaves out is not listed, and did not vanish
            count = None
        self._tally = self._tally.next()
        self._state = ended
        if state.vanished is not None or (count is not None and count.is_mass):
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
