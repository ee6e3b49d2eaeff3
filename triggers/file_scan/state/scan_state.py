"""The state of a scan between commits: a small JSON document beside the set of handled versions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal, TypeAlias

from triggers.base import JsonObject, JsonValue
from triggers.file_scan.matching import Matcher
from triggers.file_scan.state.handled import accounts_for
from triggers.file_scan.state.masses import Vanished
from triggers.file_scan.versions import FileVersion, Moment, format_moment, parse_moment

Start: TypeAlias = Literal["now", "all"] | Moment
"""The beginning of a watcher: what comes from now on, everything, or versions modified at or after a moment."""


@dataclass(frozen=True, kw_only=True)
class PassedKeys:
    """The keys that a scan with another selection had passed, up to `cursor`: what it selected there is handled.

    It emitted the versions modified before `below` without recording them. Those that it recorded are in the set.
    """

    cursor: str
    below: Moment
    match: str | None
    regex: str | None
    min_size: int
    prefix: str

    def covers(self, version: FileVersion) -> bool:
        key = version.key
        if key > self.cursor or version.modified >= self.below or not key.startswith(self.prefix):
            return False
        matcher = Matcher.of(match=self.match, regex=self.regex)
        return version.size >= self.min_size and matcher(key.removeprefix(self.prefix))


@dataclass(frozen=True, kw_only=True, slots=True)
class ScanState:
    """The working state of a watcher. Between two scans `began`, `next_horizon` and `cursor` are None.

    `next_horizon` is fixed when a scan begins, unless it `records_all`. Versions below it are emitted without being recorded, so
    a resumed scan must end with the same one even if `lateness` was changed.
    """

    horizon: Moment | None = None
    """H: versions modified before it are skipped from now on."""
    baseline: Moment | Literal["now"] | None = None
    """Versions modified before it are recorded without an event, in the scan under way or the next; `now`: when that scan begins."""
    began: Moment | None = None
    """T0: the source's clock on the first page of the scan under way; kept over a crash."""
    next_horizon: Moment | None = None
    """H once the scan under way has ended."""
    cursor: str | None = None
    """The key behind which the scan under way goes on."""
    up_to: Moment | None = None
    """All versions are handled that were visible, and old enough, when the last whole scan began."""
    vanished: Vanished | None = None
    """The handled files that vanished together, while they are gone."""
    records_all: bool = False
    """Whether the scan under way records every version. Only then `next_horizon` may go back before the scan ends."""
    reselected: tuple[PassedKeys, ...] | None = None
    """What scans had passed before the selection changed; None once a whole scan has followed."""
    copied: Moment | None = None
    """When the first scan began that met so many copies that a person has to decide; None: nobody has to."""
    adopts: bool = False
    """Whether the scan under way, or the next, counts copies as handled."""

    @classmethod
    def starting(cls, start: Start) -> ScanState:
        """Return the state of a watcher without a position, or after a rewind (which also empties the handled set)."""
        match start:
            case "now":
                return cls(baseline="now")
            case "all":
                return cls()
            case moment:
                return cls(horizon=moment)

    @property
    def is_baseline(self) -> bool:
        return self.baseline is not None

    @property
    def is_unfinished(self) -> bool:
        """Whether the end of the next scan, or of the one under way, changes more than times."""
        return self.began is not None or self.reselected is not None or self.copied is not None or self.adopts

    def is_in_baseline(self, modified: Moment) -> bool:
        """Whether a version modified then is recorded without an event."""
        return isinstance(self.baseline, int) and modified < self.baseline

    @property
    def met_again_since(self) -> Moment | None:
        """Later scans meet only versions modified then or later, which must be recorded. None: they meet all."""
        return None if self.records_all else self.next_horizon

    @property
    def copied_since(self) -> Moment:
        """When the first of the scans began that met many copies, if the scan under way does."""
        return self.copied or self.began or 0

    def abandoned(self, copied: Moment) -> ScanState:
        """Return the state in which the scan under way, which met many copies, begins anew: it has recorded all that it emitted."""
        return replace(self, began=None, next_horizon=None, cursor=None, records_all=False, copied=copied)

    def reached(self, min_age: int) -> Moment | None:
        """The moment before which the scan under way finds all that is visible and `min_age` microseconds old."""
        return None if self.began is None else self.began - min_age

    def ending_at(self, modified: Moment) -> ScanState:
        """Return a state whose scan ends with a horizon that does not pass a version modified then."""
        if self.next_horizon is None:
            return self
        return replace(self, next_horizon=min(self.next_horizon, modified))

    def behind(self, versions: Sequence[FileVersion]) -> ScanState:
        """Return the state of a scan that stopped after these new versions: it goes on behind them."""
        return replace(self, cursor=versions[-1].key) if versions else self

    def is_passed(self, version: FileVersion) -> bool:
        """Whether a scan with another selection has emitted this version without recording it."""
        return self.reselected is not None and any(passed.covers(version) for passed in self.reselected)

    def accounts_for(self, version: FileVersion, rows: Mapping[int, int]) -> bool:
        """Whether a watcher that goes on from here, with these `rows` of handled versions, will never emit this version."""
        modified = version.modified
        if (self.horizon is not None and modified < self.horizon) or self.is_in_baseline(modified):
            return True
        cursor, passed = self.cursor, self.next_horizon
        if cursor is not None and passed is not None and modified < passed and version.key <= cursor:
            return True
        return accounts_for(rows, version) or self.is_passed(version)

    def watermark(self, seen: int) -> JsonObject:
        """The watermark, by which people judge; `seen` versions are remembered."""
        scan = None
        if self.began is not None:
            scan = {"began": format_moment(self.began), "after": self.cursor, "baseline": self.is_baseline}
        return {"up_to": text_of(self.up_to), "horizon": text_of(self.horizon), "seen": seen, "scan": scan}

    def to_json(self) -> JsonObject:
        document: dict[str, JsonValue] = {
            "horizon": text_of(self.horizon),
            "baseline": self.baseline if self.baseline == "now" else text_of(self.baseline),
            "began": text_of(self.began),
            "next_horizon": text_of(self.next_horizon),
            "cursor": self.cursor,
            "up_to": text_of(self.up_to),
        }
        if self.records_all:
            document["records_all"] = True
        if self.vanished is not None:
            document["vanished"] = vars(self.vanished)
        if self.reselected is not None:
            document["reselected"] = [asdict(passed) for passed in self.reselected]
        if self.copied is not None:
            document["copied"] = text_of(self.copied)
        if self.adopts:
            document["adopts"] = True
        return document

    @classmethod
    def from_json(cls, document: JsonObject) -> ScanState:
        """Read what `to_json` wrote. Raises ValueError for a name it does not know, or a moment that is none."""
        if unknown := document.keys() - {field.name for field in fields(cls)}:
            raise ValueError(f"the stored state of the scan holds unknown names: {', '.join(sorted(unknown))}")
        baseline, cursor = document.get("baseline"), document.get("cursor")
        return cls(
            horizon=_moment_from(document.get("horizon")),
            baseline="now" if baseline == "now" else _moment_from(baseline),
            began=_moment_from(document.get("began")),
            next_horizon=_moment_from(document.get("next_horizon")),
            cursor=None if cursor is None else str(cursor),
            up_to=_moment_from(document.get("up_to")),
            vanished=_vanished_from(document.get("vanished")),
            records_all=document.get("records_all") is True,
            reselected=_passed_from(document.get("reselected")),
            copied=_moment_from(document.get("copied")),
            adopts=document.get("adopts") is True,
        )


def _vanished_from(value: JsonValue) -> Vanished | None:
    if not isinstance(value, Mapping):
        return None
    since, known, count, replaced = (int(str(value[name])) for name in ("since", "known", "count", "replaced"))
    is_certain = value.get("is_certain") is not False
    return Vanished(since=since, known=known, count=count, replaced=replaced, is_certain=is_certain)


def _passed_from(value: Any) -> tuple[PassedKeys, ...] | None:
    if value is None:
        return None
    return tuple(
        PassedKeys(
            cursor=str(each["cursor"]),
            below=int(each["below"]),
            match=each["match"],
            regex=each["regex"],
            min_size=int(each["min_size"]),
            prefix=str(each["prefix"]),
        )
        for each in value
    )


def _moment_from(value: JsonValue) -> Moment | None:
    return None if value is None else parse_moment(str(value))


def text_of(moment: Moment | None) -> str | None:
    """The moment as watermarks and states write it."""
    return None if moment is None else format_moment(moment)
