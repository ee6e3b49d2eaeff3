"""Builds the room: the scheduler that makes runs, and the dispatcher that starts and follows their tries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from store.detection.interest import EventHooks
from store.runs.tries.changed_items import ItemHooks
from watcher.host import machine
from watcher.host.loops import Hint
from watcher.host.room import Host
from watcher.scheduling.planning.base import JobStep, Planners
from watcher.scheduling.planning.scheduler import Scheduler
from watcher.scheduling.tries.admission import AdmissionLimits
from watcher.scheduling.tries.dispatcher import Dispatcher
from watcher.scheduling.tries.submissions import Submissions


@dataclass(frozen=True, kw_only=True, eq=False)
class Scheduling:
    """The scheduler and the dispatcher of a process. Both act only while it leads."""

    scheduler: Scheduler
    dispatcher: Dispatcher


def build_scheduling(
    host: Host,
    submissions: Submissions,
    hooks: EventHooks,
    *,
    configuration: str,
    steps: Mapping[str, JobStep],
    planners: Planners,
    item_hooks: ItemHooks,
) -> Scheduling:
    """Build both. `configuration` is the hash of the one that `submissions` are from; `hooks` are for events of outlets.

    `steps`, `planners` and `item_hooks` are the features'.
    """
    scheduler = Scheduler(
        host.database,
        host.leadership,
        on_runs=lambda: host.hints.deliver(Hint(what="tries")),
        steps=steps,
        planners=planners,
        item_hooks=item_hooks,
    )
    settings = host.settings.scheduler
    dispatcher = Dispatcher(
        host.database,
        submissions,
        host.leadership,
        replace(host.process, id=host.home.id),
        limits=AdmissionLimits.of(
            machine.memory_mb(), settings.parallelism, settings.memory_mb, settings.warm_memory_mb
        ),
        lease=host.settings.triggerer.lease,
        on_end=host.hints.after_try,
        configuration=configuration,
        health=host.health,
        metrics=host.metrics,
        hooks=hooks,
        item_hooks=item_hooks,
    )
    host.hints.listen("queues", scheduler.wakeup.set)
    host.hints.listen("tries", dispatcher.wakeup.set)
    return Scheduling(scheduler=scheduler, dispatcher=dispatcher)
