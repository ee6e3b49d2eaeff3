"""The templates in a job's `args`, rendered for one try when it is submitted."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from anyio.to_thread import run_sync

from config.models.passing import argument_fault
from config.models.templates import is_template
from store.database import Database
from store.detection.event_lists import StoredEvent
from store.keys import TryKey
from store.runs import consumption, runs
from store.runs.runs import RunRow
from store.runs.tries import changed_items
from watcher.host.templates import TemplateFailed, render
from watcher.submit.base import Submission, SubmitError

MOST_BYTES: Final = 1_000_000
"""Most bytes of all arguments together."""
_TIMES: Final = ("logical_date", "data_interval_start", "data_interval_end")


class ArgumentsInvalid(SubmitError):
    """An argument cannot be rendered for this run; another try would fail in the same way."""

    retryable = False


async def with_rendered_arguments(submission: Submission, database: Database) -> Submission:
    """Return the submission with its templates rendered. Raises `ArgumentsInvalid`."""
    application, key = submission.application, submission.key
    if not any(map(is_template, application.args)):
        return submission
    async with database.reading() as connection:
        run = await runs.get(connection, key.instance.dag_id, key.instance.run_id)
        events = await consumption.events_of_run(connection, key.instance.dag_id, key.instance.run_id)
        changed = await changed_items.of_try(connection, key)
    events = [replace(event, extra=changed.applied(event.id, event.extra)) for event in events]
    rendered = await run_sync(rendered_arguments, application.args, template_context(key, run, events))
    return replace(submission, application=application.running(application.application, rendered))


def template_context(key: TryKey, run: RunRow, events: Sequence[StoredEvent]) -> Mapping[str, Any]:
    """The values that templates may use, by the names of `config.models.spark.ARGUMENT_NAMES`."""
    triggering: dict[str, list[Mapping[str, Any]]] = {}
    for event in events:
        triggering.setdefault(event.asset.name, []).append(_event(event))
    instance = key.instance
    names = {"run_id": instance.run_id, "dag_id": instance.dag_id, "task_id": instance.task_id}
    times = {name: vars(run)[name] for name in _TIMES}
    given = {"try_number": key.try_number, "conf": json.loads(run.conf), "triggering_asset_events": triggering}
    return {**names, **times, **given, "partition_key": run.partition_key}


def _event(event: StoredEvent) -> Mapping[str, Any]:
    own = {"id": event.id, "extra": event.extra, "timestamp": event.timestamp}
    source = {"source_dag_id": event.source_dag_id, "source_run_id": event.source_run_id}
    return {
        **own,
        **source,
        "partition_key": event.partition_key,
        "asset": {"name": event.asset.name, "uri": event.asset.uri},
    }


def rendered_arguments(args: Sequence[str], context: Mapping[str, Any]) -> tuple[str, ...]:
    """Render each argument; it stays one argument. Raises `ArgumentsInvalid`, which names the first bad one. Blocking."""
    rendered: list[str] = []
    for number, argument in enumerate(args):
        try:
            text = render(argument, context) if is_template(argument) else argument
        except TemplateFailed as error:
            raise ArgumentsInvalid(f"spark.args[{number}] {error}") from None
        if fault := argument_fault(text):
            raise ArgumentsInvalid(f"spark.args[{number}] {fault}")
        rendered.append(text)
    if sum(len(text.encode()) for text in rendered) > MOST_BYTES:
        raise ArgumentsInvalid(f"spark.args are more than {MOST_BYTES:,} bytes in all")
    return tuple(rendered)
