"""How a watcher comes to a session: what is quick shares few of them, and what takes long waits on the patient one.

A statement on a quick session waits for a lock, and works, only for a moment: then the server ends it, and it is sent once
more to the patient session, where those that are locked or slow wait for each other, and nobody for them. A statement that
was ended has given nothing, so repeating it changes no promise.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

import anyio

from triggers.errors import SourceUnavailable
from triggers.postgres.failures import LOCK_TIMEOUT, STATEMENT_TIMEOUT, sqlstate_of
from triggers.postgres.session import Limits, Result, Session

LONGEST: Final = timedelta(seconds=60)
QUICK: Final = Limits(statement=timedelta(seconds=2), lock=timedelta(milliseconds=100))
QUICK_WITH_ONE_PLAN: Final = replace(QUICK, one_plan=True)
PATIENT_FOR: Final = 60.0
"""Seconds for which a watcher whose statement was too slow stays on the patient session."""


@dataclass(kw_only=True, eq=False, slots=True)
class Lane:
    """Of one watcher. `quick` None: it is alone, and disturbs nobody."""

    quick: Session | None
    patient: Session
    lock_timeout: timedelta
    one_plan: bool = False
    """Whether one plan of a statement that says so suits all of its arguments. Who alternates with others pays by a round trip."""
    _patient_until: float = 0.0

    async def fetch(self, statement: str, *arguments: object, repeated: bool = False) -> Result:
        """One statement, one snapshot. Others may keep a lock for `lock_timeout`.

        `repeated`: it leaves the planner one way only along the table's index, and is sent again and again.
        """
        one_plan = repeated and self.one_plan
        if self.quick is not None and anyio.current_time() >= self._patient_until:
            try:
                return await self.quick.fetch(statement, *arguments, limits=QUICK_WITH_ONE_PLAN if one_plan else QUICK)
            except SourceUnavailable as error:
                if sqlstate_of(error) == STATEMENT_TIMEOUT:
                    self._patient_until = anyio.current_time() + PATIENT_FOR
                elif sqlstate_of(error) != LOCK_TIMEOUT:
                    raise
        limits = Limits(statement=LONGEST, lock=self.lock_timeout, one_plan=one_plan)
        return await self.patient.fetch(statement, *arguments, limits=limits)
