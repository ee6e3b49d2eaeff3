"""The end of a try, committed once with what becomes of its run."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from typing import Final, TypeAlias

import structlog
from sqlalchemy.ext.asyncio import AsyncConnection

from store.detection.interest import EventHooks
from store.runs import measures
from store.runs.measures import Cost
from store.runs.tries import tries, try_lookup
from store.runs.tries.tries import emit_outlet_events
from store.runs.tries.try_lookup import OpenTry
from watcher.host.metrics import Metrics
from watcher.scheduling.tries.outcomes import Ending, Retries, decide
from watcher.submit.base import Status

LOST: Final = Status(phase="exited", reason="the job was lost: its process is gone without an exit code")

Transaction: TypeAlias = Callable[[], AbstractAsyncContextManager[AsyncConnection]]

log = structlog.get_logger()


async def record_end(
    transaction: Transaction,
    open_try: OpenTry,
    status: Status,
    metrics: Metrics,
    *,
    hooks: EventHooks,
    stopped: bool = False,
    home_gone: bool = False,
    kept_for: timedelta | None = None,
) -> None:
    """Commit that nothing of the try is alive, and what becomes of its run. Does nothing if another home has it by now.

    What the try leaves is to be removed after `kept_for`. `hooks` take part if its success updates the outlets.
    """
    async with transaction() as connection:
        current = await try_lookup.open_try(connection, open_try.key, lock=True)
        if current is None or current.home_id != open_try.home_id:
            return
        ending = Ending(
            finish_state=current.finish_state,
            is_final=current.is_final,
            claimed=current.claimed,
            exit_code=status.exit_code,
            reason=status.reason,
            message=current.message,
            stopped=stopped,
            home_gone=home_gone,
            restarted=status.restarted,
            timed_out=status.timed_out,
        )
        definition = open_try.definition
        used = await try_lookup.counted_tries(connection, open_try.key.task_instance_id)
        allowed = definition.retries if status.retryable else 0
        retries = Retries(allowed=allowed, delay=definition.retry_delay, used=used)
        outcome = decide(ending, retries)
        run = await tries.end(
            connection,
            current,
            exit_code=status.exit_code,
            state=outcome.state,
            run_state=outcome.run_state,
            reason=outcome.reason,
            warning=outcome.warning,
            retry_in=None if outcome.retry_in is None else outcome.retry_in.total_seconds(),
            counted=outcome.counted,
            forget_in=None if kept_for is None else kept_for.total_seconds(),
        )
        if run is not None and outcome.updates_outlets:
            events = await emit_outlet_events(connection, current.key.instance, run, hooks)
            log.info("run.told_outlets", events=len(events.rows))
        of_processes = Cost(cpu_seconds=status.cpu_seconds, peak_memory_mb=status.peak_memory_mb)
        cost = await measures.add_cost(connection, open_try.key, of_processes)
    metrics.observe_cost(open_try.key.dag_id, cost.known)
    if run is not None:
        metrics.count_end(run)
    if current.cancelled:
        log.info("run.stopped", exit_code=status.exit_code)
    else:
        log.info("run.ended", state=outcome.state, exit_code=status.exit_code, reason=outcome.reason)
