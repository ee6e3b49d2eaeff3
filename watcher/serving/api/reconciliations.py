"""The comparisons of sources with events that a process was asked for. They go on in the background, and are kept for a while."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Generic, Literal, Self, TypeVar

import anyio
import structlog

from store.errors import Conflict, NotFound, StoreError
from triggers.errors import TriggerError
from watcher.host.containment import is_cancelled, sentence
from watcher.serving.api.context import ApiContext
from watcher.triggerer.clients import Clients
from watcher.triggerer.reconciliation.result import ReconcileProgress

MOST_KEPT: Final = 20
"""The comparisons that are kept; of more, the oldest that ended are forgotten."""

ResultT = TypeVar("ResultT")

log = structlog.get_logger()


@dataclass(kw_only=True, eq=False)
class Reconciliation(Generic[ResultT]):
    """A comparison that was asked for. `error` is a sentence for people."""

    watcher: str
    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    state: Literal["running", "done", "failed"] = "running"
    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    progress: ReconcileProgress = field(default_factory=ReconcileProgress)
    result: ResultT | None = None
    error: str | None = None


@dataclass(kw_only=True, eq=False)
class Reconciliations:
    """The comparisons of this process; one at a time is carried out. `folder` is where they sort."""

    folder: Path
    _kept: dict[str, Reconciliation[Any]] = field(default_factory=dict)
    _turn: anyio.Lock = field(default_factory=anyio.Lock)

    @classmethod
    def of_context(cls, context: ApiContext) -> Self:
        """Make it for the process that answers."""
        return cls(folder=context.home)

    def start(
        self, watcher: str, compare: Callable[[ReconcileProgress], Awaitable[ResultT]], clients: Clients
    ) -> Reconciliation[ResultT]:
        """Begin a comparison. Raises `Conflict` if one of this watcher is under way."""
        if any(each.watcher == watcher and each.state == "running" for each in self._kept.values()):
            raise Conflict(f"{watcher} is being reconciled; wait for the result")
        made: Reconciliation[ResultT] = Reconciliation(watcher=watcher)
        ended = [each.id for each in self._kept.values() if each.state != "running"]
        for old in ended[: max(0, len(self._kept) + 1 - MOST_KEPT)]:
            del self._kept[old]
        self._kept[made.id] = made

        async def run() -> None:
            await self._run(made, compare)

        clients.start_soon(run, f"reconciliation of {watcher}")
        return made

    def get(self, watcher: str, id_: str) -> Reconciliation[Any]:
        """Return a comparison. Raises `NotFound`."""
        kept = self._kept.get(id_)
        if kept is None or kept.watcher != watcher:
            raise NotFound(
                f"this process has no comparison {id_!r} of {watcher}: the last {MOST_KEPT} are kept, until the process ends;"
                " begin another one"
            )
        return kept

    async def _run(
        self, made: Reconciliation[ResultT], compare: Callable[[ReconcileProgress], Awaitable[ResultT]]
    ) -> None:
        """Carry it out. Never raises."""
        try:
            async with self._turn:
                made.result = await compare(made.progress)
            made.state = "done"
        except BaseException as error:
            made.state, made.error = "failed", sentence(error)
            if is_cancelled() and isinstance(error, anyio.get_cancelled_exc_class()):
                raise
            unexpected = not isinstance(error, StoreError | TriggerError)
            log.warning("watcher.reconcile_failed", watcher=made.watcher, error=made.error, exc_info=unexpected)
