"""Why a file was reported, or was not: the pure part that S3 and local folders share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from triggers.base import StoredPosition
from triggers.explanations import Explanation, ItemState
from triggers.file_scan.options import FileOptions
from triggers.file_scan.state.handled import accounts_for
from triggers.file_scan.state.scan_state import ScanState, text_of
from triggers.file_scan.versions import FileVersion, Moment, format_moment, length_of


@dataclass(frozen=True, kw_only=True)
class SeenFile:
    """A file that the source was asked for: its present version, and the source's clock then."""

    version: FileVersion
    size: int
    clock: Moment
    is_selected: bool
    """Whether the watcher selects it, by size and kind. Its name was judged before."""


def not_matched(key: str, named: Explanation, options: FileOptions) -> Explanation | None:
    """Return why a name below the watched place is not selected; None: it is."""
    if options.matcher(key):
        return None
    pattern, which = (options.match, "match") if options.match is not None else (options.regex, "regex")
    sentence = f"{key!r} does not match `{which}: {pattern}`"
    return replace(named, state="not_matched", sentence=sentence, facts={which: pattern, "key": key})


def missing(named: Explanation) -> Explanation:
    return replace(named, state="missing", sentence="the source does not have this file now")


def explain_file(
    seen: SeenFile, named: Explanation, options: FileOptions, position: StoredPosition | None
) -> Explanation:
    """Return what the watcher did, or will do, with the version of a file that is there now."""
    modified = format_moment(seen.version.modified)
    state, sentence, facts = _not_selected(seen, options) or judge(seen, options, *scan_of(options, position))
    return replace(
        named,
        state=state,
        sentence=sentence,
        facts={"modified": modified, "size": seen.size, **facts},
        version=seen.version.describe() if seen.version.fault is None else None,
        written=modified,
    )


_Judgement: TypeAlias = tuple[ItemState, str, Mapping[str, Any]]
_Scan: TypeAlias = tuple[ScanState, Mapping[int, int]]


def scan_of(options: FileOptions, position: StoredPosition | None) -> _Scan:
    """Return the state of a watcher's scans, and its handled versions."""
    if position is None:
        return ScanState.starting(options.start_from), {}
    return ScanState.from_json(position.state), position.rows


def _not_selected(seen: SeenFile, options: FileOptions) -> _Judgement | None:
    if seen.is_selected:
        return None
    if seen.size < options.min_size:
        sentence = f"its size of {seen.size} bytes is below `min_size: {options.min_size}`"
    else:
        sentence = "it is a directory marker: an empty object whose key ends with /"
    return "not_matched", sentence, {"min_size": options.min_size}


def judge(seen: SeenFile, options: FileOptions, scan: ScanState, handled: Mapping[int, int]) -> _Judgement:
    """Judge a version that the watcher selects."""
    version, start, modified = seen.version, options.start_from, format_moment(seen.version.modified)
    if scan.baseline == "now":
        return "before_start", "the watcher begins with its next poll, and passes over what is there then", {}
    if scan.accounts_for(version, handled):
        if isinstance(start, int) and version.modified < start:
            text = format_moment(start)
            return "before_start", f"it was modified at {modified}, before `start: {text}`", {"start": text}
        facts = {} if accounts_for(handled, version) else {"horizon": text_of(scan.horizon)}
        return "reported", f"the watcher is done with its version of {modified}", facts
    if version.fault is not None and options.on_bad_row == "stop":
        return "waiting", f"no event can name it, and the watcher stops at it: {version.fault}", {"reason": "fault"}
    until = version.modified + length_of(options.min_age)
    if options.min_age and until > seen.clock:
        text = format_moment(until)
        sentence = f"it is younger than `min_age`: it was modified at {modified} and is reported from {text} on"
        return "waiting", sentence, {"reason": "min_age", "until": text}
    which, reason = ("the next whole scan reports", "scan")
    if scan.copied is not None:
        which, reason = (
            "unless it is one of many copies, about which `watcher rewind` decides, the next whole scan reports",
            "copied",
        )
    elif options.tells_last(version.key):
        which, reason = ("it matches `last`: once two whole scans have listed it, the watcher reports", "last")
    return "waiting", f"{which} its version of {modified}", {"reason": reason}
