"""What a configuration would do to events that wait in the queues of jobs, for `watcher check --connect`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

from config.models import Configuration
from config.models.schedules import AliasCondition, AssetCondition, Reference, references
from store.references import decode, where_id
from store.runs.queue.queues import CountedQueue
from triggers.base import Finding


def queue_findings(
    configuration: Configuration, queues: Sequence[CountedQueue], resolved: Mapping[str, AbstractSet[str]]
) -> Mapping[str, Sequence[Finding]]:
    """Return by job what becomes of the queued events that its schedule does not wait for.

    `resolved` has the assets that each alias has resolved to.
    """
    findings: defaultdict[str, list[Finding]] = defaultdict(list)
    for queue in queues:
        job = configuration.jobs.get(queue.dag_id)
        waiting = f"{queue.events} queued events of {queue.name}"
        if job is None:
            remedy = "configure the job again to keep them"
            findings[queue.dag_id].append(Finding.warning("queue", f"{waiting} go when the job is removed", remedy))
        elif job.schedule is None:
            what = f"{waiting} wait, and the job has no schedule that would start a run of them"
            remedy = "give the job a schedule, or delete them from its queue"
            findings[queue.dag_id].append(Finding.warning("queue", what, remedy))
        elif not any(
            _is_of(queue, reference, configuration, resolved) for reference in references(job.schedule.condition)
        ):
            what = f"{waiting} go with the next run, although the schedule does not wait for them"
            remedy = "delete them from the job's queue if no run should have them"
            findings[queue.dag_id].append(Finding.warning("queue", what, remedy))
    return findings


def _is_of(
    queue: CountedQueue,
    reference: Reference,
    configuration: Configuration,
    resolved: Mapping[str, AbstractSet[str]],
) -> bool:
    """Whether the queued events satisfy a reference to their asset, or to an alias that has resolved to it."""
    if where_id(reference.where) not in decode(queue.satisfies):
        return False
    match reference:
        case AliasCondition(name=name):
            return queue.name in resolved.get(name, ())
        case AssetCondition(name=name):
            return name == queue.name or configuration.assets[name].uri == queue.uri
