"""The alarm about transactions that keep a watcher waiting, and what a watermark says about them in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, Protocol

import structlog

from triggers.base import Finding, JsonObject, JsonValue
from triggers.postgres.table.watched_table import WatchedTable

log = structlog.get_logger()


@dataclass(frozen=True, kw_only=True)
class AlarmReason:
    """A reason for an alarm. `transaction` is the virtual transaction that is waited for, if it is known.

    `oldest` describes it for the watermark, where the memory does not. `rows_wait` says that new rows wait for it.
    """

    text: str
    transaction: str | None
    oldest: JsonObject | None = None
    rows_wait: bool = False


@dataclass(frozen=True, kw_only=True)
class Alarm:
    """An alarm that a person should look at, with what is known about the transaction that is waited for."""

    transaction: str | None
    details: Mapping[str, JsonValue]
    rows_wait: bool
    finding: Finding


class HasWatermark(Protocol):
    def watermark(self) -> Mapping[str, JsonValue]: ...


class SlowWriterAlarm:
    """The alarm of one watcher: it warns once for each transaction that is waited for too long, and again when rows wait for it."""

    __slots__ = ("_oldest", "_table", "_told", "raised")

    def __init__(self, table: WatchedTable) -> None:
        self.raised: Alarm | None = None
        self._table = table
        self._oldest: JsonObject | None = None
        self._told: set[bool] = set()
        """For which values of `rows_wait` there was a warning about the transaction."""

    @property
    def findings(self) -> Sequence[Finding]:
        return [] if self.raised is None else [self.raised.finding]

    async def judge(self, reason: AlarmReason | None, memory: HasWatermark) -> None:
        """Raise, keep or end the alarm. The memory's watermark goes into the log."""
        before = self.raised
        if reason is None:
            self.raised = None
            return
        self._oldest = reason.oldest
        transaction = reason.transaction
        if before is not None and (before.transaction, before.rows_wait) == (transaction, reason.rows_wait):
            return
        about = await self._table.about(transaction) if transaction is not None else {}
        details = {"reason": reason.text, **about}
        watermark: Mapping[str, Any] = {**memory.watermark(), **self._holder()}
        self.raised = Alarm(
            transaction=transaction,
            details=details,
            rows_wait=reason.rows_wait,
            finding=_finding(watermark["oldest"] or {}, details),
        )
        if before is None or before.transaction != transaction:
            self._told = set()
        if reason.rows_wait not in self._told:
            self._told.add(reason.rows_wait)
            log.warning("postgres.gap_alarm", table=self._table.options.table, **watermark, **details)

    def watermark(self) -> JsonObject:
        """The members that the alarm adds to the memory's watermark."""
        return {} if self.raised is None else {**self._holder(), "alarm": self.raised.details}

    def _holder(self) -> JsonObject:
        return {} if self._oldest is None else {"oldest": self._oldest}


def _finding(oldest: Mapping[str, Any], details: Mapping[str, Any]) -> Finding:
    sentence, _ = describe_what_is_open({"oldest": oldest, "alarm": details})
    pid, name = oldest.get("pid"), details.get("prepared_as")
    end = f"SELECT pg_terminate_backend({pid})" if name is None else f"ROLLBACK PREPARED '{name}', or COMMIT PREPARED"
    return Finding.warning("open transactions", sentence, f"{end} ends it" if pid or name else "")


def is_older(since: str, now: str, age: timedelta) -> bool:
    """Return whether `since` lies at least `age` before `now`; both are times of the server's clock."""
    return datetime.fromisoformat(now) - datetime.fromisoformat(since) >= age


_ABOUT_HOLDERS: Final = {
    "user": "user",
    "application": "application",
    "database": "database",
    "state": "state",
    "started": "began",
    "prepared_as": "prepared as",
    "query": "last statement:",
}


def describe_what_is_open(watermark: Mapping[str, Any]) -> tuple[str, Mapping[str, float]]:
    """Describe a watermark of either mode in words, and count its gaps where it has gaps (pure)."""
    gaps, oldest, alarm = watermark.get("gaps"), watermark.get("oldest") or {}, watermark.get("alarm") or {}
    parts = []
    if gaps:
        parts.append(_gaps_in_words(gaps, watermark["open_ids"]))
    if oldest:
        pid = oldest["pid"]
        who = f"the prepared transaction {oldest['transaction']}" if pid is None else f"pid {pid}"
        parts.append(f"the oldest writer waited for is {who}, since {oldest['since']}")
    if alarm:
        details = [f"{words} {alarm[name]}" for name, words in _ABOUT_HOLDERS.items() if alarm.get(name) is not None]
        parts.append(f"alarm: {alarm['reason']}" + (f" ({', '.join(details)})" if details else ""))
    return "; ".join(parts), {} if gaps is None else {"gaps": gaps}


def _gaps_in_words(gaps: int, ids: int) -> str:
    are, are_ids = "gap is" if gaps == 1 else "gaps are", "id" if ids == 1 else "ids"
    return f"{gaps} {are} open ({ids} {are_ids} may still come)"
