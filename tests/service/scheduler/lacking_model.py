"""What the reference model of scheduling says of jobs that wait: what each partition lacks, and what a whole queue waits for."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, TypeAlias

from tests.service.scheduler.schedule_model import (
    DIVIDED,
    MARKS,
    NAMES,
    PARTS,
    PLAIN,
    JobState,
    ModelComplete,
    ModelJob,
    ScheduleModel,
    names,
)

WHERE_TEXTS = ("extra.n = 1", 'extra.n in ["1", null]', "extra.n in [null, 1.0]")
"""What people read of the `WHERES`, by number."""
Shown: TypeAlias = tuple[int, str, bool]
"""What is shown of a partition: how many events it has, what it lacks, and whether it waits for the end of a run."""


def partitions(model: ScheduleModel, dag_id: str) -> dict[str | None, Shown]:
    """Return what the partitions of a job hold and lack, by key."""
    job = model.jobs[dag_id]
    if job.now is None or not job.now.per_partition:
        return {}
    groups: dict[str | None, list[int]] = {}
    for event in sorted(job.queue):
        groups.setdefault(model.group_of(event, job.now.by), []).append(event)
    busy = {key for key, state in zip(job.keys, job.states, strict=True) if state == "queued"}
    return {key: (len(events), _lack(model, job, job.now, key, events), key in busy) for key, events in groups.items()}


def _lack(model: ScheduleModel, job: JobState, now: ModelJob, key: str | None, events: list[int]) -> str:
    if now.schedule is None:
        return ""
    if now.complete is not None and now.complete.again:
        return "" if model.delivery(job, now, key, events) else _lack_of_delivery(model, job, now, key, events)
    if now.complete is not None and key in job.closed:
        return ""
    complete = now.complete or ModelComplete()
    if not model.is_complete(now.schedule, complete, job, events):
        return _condition(model, now.schedule, complete, job, events)
    awaited = [each for each in events if model.is_waited_for(job.queue[each], now.schedule)]
    return "" if now.complete is None else _content(model, complete, awaited)


def _lack_of_delivery(model: ScheduleModel, job: JobState, now: ModelJob, key: str | None, events: list[int]) -> str:
    complete, condition, is_again = now.complete, now.schedule, key in job.closed
    assert complete is not None
    word, earlier = ("redelivery incomplete: ", model.earlier_files(job, key)) if is_again else ("", set[str]())
    if is_again:
        condition = model.of_what_comes(condition, job, events) or condition
    if not model.is_complete(condition, complete, job, events):
        return word + _condition(model, condition, complete, job, events)
    awaited = [each for each in events if model.is_waited_for(job.queue[each], now.schedule)]
    return word + (f"values of {complete.part}" if complete.part else _content(model, complete, awaited, earlier))


def _condition(model: ScheduleModel, condition: Any, complete: ModelComplete, job: JobState, events: list[int]) -> str:
    match condition:
        case {"all": parts}:
            unmet = [each for each in parts if not model.is_complete(each, complete, job, events)]
            return " and ".join(_condition(model, each, complete, job, events) for each in unmet)
        case {"any": parts}:
            return " or ".join(_condition(model, each, complete, job, events) for each in parts)
    ((kind, name, where),) = names(condition)
    asked = "" if where == PLAIN else f" where {WHERE_TEXTS[where]}"
    if kind == "alias":
        return f"the alias `{name}`{asked}"
    mine = [each for each in events if job.queue[each].asset == name and where in job.queue[each].satisfied]
    if not mine or complete.part not in PARTS.get(name, ()):
        return f"`{name}`{asked}"
    place, size = PARTS[name].index(complete.part), len(PARTS[name])
    divided = [DIVIDED[key] for each in mine if (key := model.events[each].key) is not None]
    came = {values[place] for values in divided if len(values) == size}
    others = [value for value in complete.values if value not in came]
    are_all_needed = complete.needed == len(complete.values)
    number = "" if are_all_needed else f"{complete.needed - len(complete.values) + len(others)} of "
    return f"`{name}`{asked} with {complete.part} {number}{', '.join(others)}"


def _content(model: ScheduleModel, complete: ModelComplete, awaited: list[int], earlier: Collection[str] = ()) -> str:
    """Return what the events of a partition lack of what it needs beside its condition."""
    of_events = [model.events[each] for each in awaited]
    if complete.marked:
        return "" if any(event.says == MARKS for event in of_events) else "a file that matches `**/_SUCCESS`"
    if complete.named:
        manifests = {event.file: event.names for event in of_events if event.says == NAMES}
        if not manifests:
            return "a file that matches `*.manifest`"
        came = {event.file for event in of_events} | {*earlier}
        unread = "the names in `{}.manifest`, which its watcher did not read (write it again)"
        sentences = []
        for manifest, named in manifests.items():
            missing = [each for each in named or () if each not in came]
            if named is None:
                sentences.append(unread.format(manifest))
            elif missing:
                listed = ", ".join(f"`{each}`" for each in missing)
                sentences.append(f"{len(missing)} of the {len(named)} files that `{manifest}.manifest` names: {listed}")
        return " and ".join(sentences)
    items = {(model.events[each].asset, model.events[each].file or each) for each in awaited}
    lacking = (complete.items or 0) - len(items)
    return f"{lacking} more files or rows" if lacking > 0 else ""


def reason(model: ScheduleModel, dag_id: str) -> str:
    """Return why nothing starts a run of what is queued for a job that does not take partitions."""
    job = model.jobs[dag_id]
    now = job.now
    if now is None or not job.queue:
        return "nothing is queued"
    if now.schedule is None and now.month is None:
        return (
            "the job has no schedule, so nothing starts a run of what is queued; give it one, or run or drop the events"
        )
    waits = "a run is about to start" if now.each else _of_queue(model, job, now)
    if job.paused:
        besides = "" if waits == "a run is about to start" else f"; besides, it {waits}"
        return f"the job is paused; resume it{besides}"
    return waits


def _of_queue(model: ScheduleModel, job: JobState, now: ModelJob) -> str:
    """Return what one run of all queued events waits for."""
    if now.schedule is not None and not model.is_met(now.schedule, job.queue.values()):
        return f"waits for {_unmet(model, job, now.schedule)}"
    if now.schedule is None or now.joint:
        return "waits for the next tick"
    if job.active >= now.max_active_runs:
        return f"waits until a run ends: {job.active} of at most {now.max_active_runs} are active"
    return "a run is about to start"


def _unmet(model: ScheduleModel, job: JobState, condition: Any, *, is_one_of_several: bool = False) -> str:
    match condition:
        case {"all": parts}:
            some, word = [each for each in parts if not model.is_met(each, job.queue.values())], " and "
        case {"any": parts}:
            some, word = parts, " or "
        case _:
            ((kind, name, where),) = names(condition)
            asked = "" if where == PLAIN else f" where {WHERE_TEXTS[where]}"
            unknown = "" if kind == "asset" or model.resolved else ", which stands for no asset yet"
            return f"{'the alias ' if kind == 'alias' else ''}{name}{asked}{unknown}"
    text = word.join(_unmet(model, job, each, is_one_of_several=len(some) > 1) for each in some)
    return f"({text})" if is_one_of_several else text
