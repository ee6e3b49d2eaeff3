"""The templates in a job's `args`, rendered for one try when it is submitted."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from anyio.to_thread import run_sync

from config.templates import is_template
from store.database import Database
from store.detection.event_lists import StoredEvent
from store.keys import TryKey
from store.runs import consumption, runs
from store.runs.runs import RunRow
from watcher.host.templates import TemplateFailed, render
from watcher.submit.base import Submission, SubmitError

LARGEST_OF_ALL: Final = 1_000_000
"""Bytes of all arguments."""
_TIMES: Final = ("logical_date", "data_interval_start", "data_interval_end")


class ArgumentsInvalid(SubmitError):
    """An argument cannot be made of this run, whichever its try."""

    retryable = False


async def with_rendered_arguments(submission: Submission, database: Database) -> Submission:
    """The submission with its templates replaced. Raises `ArgumentsInvalid`."""
    args, key = submission.application.args, submission.key
    if not any(map(is_template, args)):
        return submission
    async with database.reading() as connection:
        run = await runs.get(connection, key.instance.dag_id, key.instance.run_id)
        events = await consumption.events_of_run(connection, key.instance.dag_id, key.instance.run_id)
    rendered = await run_sync(rendered_arguments, args, template_context(key, run, events))
    return replace(submission, application=replace(submission.application, args=rendered))


def template_context(key: TryKey, run: RunRow, events: Sequence[StoredEvent]) -> Mapping[str, Any]:
    """What templates see, by the names of `config.spark_keys.ARGUMENT_NAMES`."""
    triggering: dict[str, list[Mapping[str, Any]]] = {}
    for event in events:
        triggering.setdefault(event.asset.name, []).append(_event(event))
    instance = key.instance
    names = {"run_id": instance.run_id, "dag_id": instance.dag_id, "task_id": instance.task_id}
    times = {name: vars(run)[name] for name in _TIMES}
    given = {"try_number": key.try_number, "conf": json.loads(run.conf), "triggering_asset_events": triggering}
    return {**names, **times, **given, "partition_key": None}


def _event(event: StoredEvent) -> Mapping[str, Any]:
    own = {"id": event.id, "extra": event.extra, "timestamp": event.timestamp}
    source = {"source_dag_id": event.source_dag_id, "source_run_id": event.source_run_id}
    return {**own, **source, "partition_key": None, "asset": {"name": event.asset.name, "uri": event.asset.uri}}


def rendered_arguments(args: Sequence[str], context: Mapping[str, Any]) -> tuple[str, ...]:
    """Each argument stays one argument. Raises `ArgumentsInvalid`, which names the first that is wrong. Blocking."""
    rendered: list[str] = []
    for number, argument in enumerate(args):
        try:
            text = render(argument, context) if is_template(argument) else argument
        except TemplateFailed as error:
            raise ArgumentsInvalid(f"spark.args[{number}] {error}") from None
        if "\0" in text:
            raise ArgumentsInvalid(f"spark.args[{number}] holds a NUL character, which no argument can")
        rendered.append(text)
    if sum(len(text.encode()) for text in rendered) > LARGEST_OF_ALL:
        raise ArgumentsInvalid(f"spark.args are more than {LARGEST_OF_ALL:,} bytes in all")
    return tuple(rendered)
