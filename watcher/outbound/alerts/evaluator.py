"""The loop that checks what is wrong. Only the leader runs it; each change is stored once, together with its message."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Self
from uuid import uuid4

import anyio
import structlog
from anyio.abc import TaskStatus

from config.features.alerts.settings import AlertsPart
from config.models.settings import Settings
from store.database import Database
from store.database.paging import now_of
from store.detection import outbox
from store.detection.outbox import NewMessage
from store.features.problems.conditions import REMEMBERED
from store.processes import alerts
from watcher.host.leader_election import Leadership
from watcher.host.loops import keep_going
from watcher.outbound.alerts.changes import Notice, Rule, alerted, changes, rules
from watcher.scheduling.planning.base import Planners
from watcher.scheduling.problems.problem import page_of
from watcher.scheduling.problems.sources import ProblemsLook, ProblemsOf, read_problems

LOOK_EVERY: Final = 5.0
"""Seconds between two checks."""
WITHOUT_RULES: Final = 60.0
"""Seconds between two checks when no rule is left, and only alerts of earlier rules are to end."""
DESTINATION: Final = "alerts"
"""The name of this destination in the outbox. A lane is one rule and one subject."""

log = structlog.get_logger()


@dataclass(kw_only=True, eq=False)
class Evaluator:
    """Compares what is wrong with what was reported. `on_alerts` is called after alerts were committed to the outbox."""

    database: Database
    leadership: Leadership
    rules: Sequence[Rule]
    base_url: str | None
    on_alerts: Callable[[], None]
    planners: Planners
    """They know what the partitions of jobs lack."""
    problems_of: Sequence[ProblemsOf] = ()
    """What reads the problems of features."""
    _since: datetime | None = None
    """`alerts.alerting_since`, which never changes."""

    @classmethod
    def of(
        cls,
        settings: Settings,
        database: Database,
        leadership: Leadership,
        *,
        on_alerts: Callable[[], None],
        planners: Planners,
        problems_of: Sequence[ProblemsOf] = (),
    ) -> Self:
        """Return the evaluator of the configured rules."""
        return cls(
            database=database,
            leadership=leadership,
            rules=rules(settings.part(AlertsPart).alerts),
            base_url=settings.api.base_url,
            on_alerts=on_alerts,
            planners=planners,
            problems_of=problems_of,
        )

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Check until cancelled."""
        task_status.started()
        while True:
            async with keep_going("alerts.look_failed"):
                await self.look()
            await anyio.sleep(LOOK_EVERY if self.rules else WITHOUT_RULES)

    async def look(self) -> None:
        """Begin and end alerts. Writes nothing when nothing has changed."""
        if not self.leadership.leads:
            return
        async with self.database.reading() as connection:
            known = await alerts.listed(connection)
            now = await now_of(connection)
        if not self.rules and not known:
            return
        if self._since is None:
            async with self.leadership.transaction() as connection:
                self._since = await alerts.alerting_since(connection, self.database.dialect)
        async with self.database.reading() as connection:
            look = ProblemsLook(connection=connection, now=now, planners=self.planners)
            problems = await read_problems(look, self.problems_of)
        present = alerted(problems, max(self._since, now - REMEMBERED))
        changed = changes(present, self.rules, known, now)
        if not (changed.added or changed.fired or changed.removed):
            return
        async with self.leadership.transaction() as connection:
            await alerts.add(connection, changed.added)
            await alerts.set_fired(connection, changed.fired)
            await alerts.remove(connection, changed.removed)
            await outbox.put(connection, [self._message(notice, now) for notice in changed.notices])
        for notice in changed.notices:
            log.warning("alert.changed", state=notice.state, alert=notice.known.alert, **notice.known.subject)
        if changed.notices:
            self.on_alerts()

    def _message(self, notice: Notice, now: datetime) -> NewMessage:
        known, message_id = notice.known, str(uuid4())
        body: Mapping[str, Any] = {
            "id": message_id,
            "alert": known.alert,
            "state": notice.state,
            "since": (known.since if notice.state == "firing" else now).astimezone(UTC).isoformat(),
            "subject": known.subject,
            "message": known.message,
            "url": f"{(self.base_url or '').rstrip('/')}/{page_of(known.subject)}",
        }
        lane = f"{known.rule}/{known.key[:16]}"
        return NewMessage(destination=DESTINATION, lane=lane, message_id=message_id, body=json.dumps(body))
