"""What features add to `watcher check --connect`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import anyio

from config.models import Configuration
from store.database import Database
from triggers.base import Finding
from triggers.errors import SourceUnavailable

PATIENCE: Final = 60.0
"""Seconds for the check of one source."""


@dataclass(frozen=True, kw_only=True)
class Findings:
    """Findings about watchers and jobs, by their names, and those about something else."""

    watchers: Mapping[str, Sequence[Finding]] = field(default_factory=dict)
    jobs: Mapping[str, Sequence[Finding]] = field(default_factory=dict)
    others: Sequence[Finding] = ()


Check: TypeAlias = Callable[[Configuration, Database | None], Awaitable[Findings]]
"""Checks what a feature does with a configuration. The database is None if it does not answer, or is of another release.

It may take as long as its sources do; it wraps what may fail in `judged`, and raises only what the database raises.
"""


async def judged(check: Callable[[], Awaitable[Sequence[Finding]]], silence: str, remedy: str) -> Sequence[Finding]:
    """Run a check. Anything that goes wrong becomes a finding, because a plug-in may raise anything."""
    try:
        with anyio.fail_after(PATIENCE):
            return await check()
    except TimeoutError:
        return [Finding.error("connect", f"{silence} within {PATIENCE:g} s", remedy)]
    except SourceUnavailable as error:
        has_remedy = "; " in str(error)
        remedy = "" if has_remedy else "check the connection's address, and that the network leads there"
        return [Finding.error("connect", str(error), remedy)]
    except Exception as error:  # noqa: BLE001
        return [Finding.error("connect", str(error) or type(error).__name__, "")]
