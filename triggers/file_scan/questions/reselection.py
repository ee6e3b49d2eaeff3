"""Going on where a watcher stood: what a changed selection leaves of the position, and what people may decide."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any, Final

import anyio

from triggers.errors import TriggerError
from triggers.file_scan.scanner import Scanner
from triggers.file_scan.state.scan_state import PassedKeys, ScanState
from triggers.file_scan.versions import ScanPage

SELECTION: Final = frozenset({"match", "regex", "min_size", "prefix"})
"""The members of an identity that select files of a place."""
LOOK_WITHIN: Final = 10.0
"""Seconds for the listing that counts what each decision would report."""


def is_reselection(before: Any, now: Any) -> bool:
    """Whether two identities differ in what they select, and in nothing else."""
    if not isinstance(before, Mapping) or not isinstance(now, Mapping) or before.keys() != now.keys():
        return False
    differing = {name for name in now if before[name] != now[name]}
    return bool(differing) and differing <= SELECTION


def reselected(state: ScanState, before: Mapping[str, Any]) -> ScanState:
    """Return the state from which another selection goes on; `before` is the identity of the position.

    A scan begins anew, since the keys behind which one stopped may hold files that only the new selection has. What that scan
    emitted without recording it is passed over.
    """
    passed = state.reselected or ()
    if state.began is not None and state.cursor is not None and state.next_horizon is not None:
        selection = {name: before.get(name) for name in SELECTION}
        passed = (
            *passed,
            PassedKeys(
                cursor=state.cursor,
                below=state.next_horizon,
                match=selection["match"],
                regex=selection["regex"],
                min_size=int(selection["min_size"] or 0),
                prefix=str(selection["prefix"] or ""),
            ),
        )
    return replace(state, began=None, next_horizon=None, cursor=None, vanished=None, reselected=passed)


def continued(state: ScanState, before: Mapping[str, Any] | None) -> ScanState | None:
    """Return the state of a watcher that goes on where it stood, as a person decided; None: there was nothing to decide.

    `before` is the identity of the position if its selection is another one.
    """
    if before is not None:
        return reselected(state, before)
    return None if state.copied is None else replace(state, copied=None, adopts=True)


@dataclass(kw_only=True)
class Look:
    """What a listing has for each decision. `is_whole`: it came to its end in time."""

    new: int = 0
    """The files that `--to here` would report now."""
    total: int = 0
    is_whole: bool = False

    async def count(self, pages: AsyncGenerator[ScanPage, None], scanner: Scanner) -> None:
        """Count for at most `LOOK_WITHIN` seconds. An error of the source ends it, as if the time were over."""
        with anyio.move_on_after(LOOK_WITHIN):
            async with aclosing(pages):
                try:
                    async for page in pages:
                        self.total += sum(1 for _ in page.versions(None))
                        self.new += len(scanner.advance(page, now=0.0).versions)
                    self.is_whole = True
                except TriggerError:
                    return

    def sentence(self, watcher: str) -> str:
        rewind, least = f"watcher rewind {watcher} --to", "" if self.is_whole else "at least "
        return (
            f"`{rewind} here` keeps what was handled and reports what only the new selection has ({least}{self.new:,} now),"
            f" `{rewind} now` counts all of it as known ({least}{self.total:,}), `{rewind} start` reports all of it again"
            f" ({least}{self.total:,})"
        )
