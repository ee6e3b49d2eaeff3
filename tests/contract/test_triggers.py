"""The obligations of every trigger, whoever wrote it (docs/writing-a-trigger.md)."""

from __future__ import annotations

import json
import math
import os
from collections.abc import AsyncIterator, Callable, Hashable, Iterator
from contextlib import AsyncExitStack, aclosing
from importlib import import_module
from pathlib import Path
from time import monotonic
from typing import Any, TypeAlias

import anyio
import pytest
from pydantic import ValidationError

from tests.contract.sources import PLUGINS, LocalFolder, NoticeBoard, PostgresTable, S3Prefix, Source
from tests.service.conftest import bucket, postgres_database, s3_server
from tests.unit.triggers_files.dict_host import DictHost
from triggers.base import BaseEventTrigger, IncrementalTrigger, TriggerBatch, TriggerContext
from triggers.errors import ConfigurationError
from watcher.configuration.vocabulary import connection_class, describe, trigger_class, vocabulary
from watcher.triggerer.committing import identity_json

pytestmark = pytest.mark.feature("folder", "rows", "s3")

__all__ = ["bucket", "postgres_database", "s3_server"]

Trigger: TypeAlias = BaseEventTrigger[Any, Any]
Make: TypeAlias = Callable[..., Trigger]

OF_AN_AUTHOR = os.environ.get("WATCHER_TEST_TRIGGER_SOURCE")
SOURCES = [
    "folder, window",
    "folder, strict",
    "third party's board",
    *(pytest.param(name, marks=pytest.mark.service) for name in ("prefix, window", "table, id", "table, updated_at")),
    *([OF_AN_AUTHOR] if OF_AN_AUTHOR else []),
]


@pytest.fixture(params=SOURCES)
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Source]:
    vocabulary().add_plugins(PLUGINS, frozenset())
    with _source(request, tmp_path) as source:
        yield source


def _source(request: pytest.FixtureRequest, tmp_path: Path) -> Source:
    kind, _, mode = request.param.partition(", ")
    if kind == "folder":
        return LocalFolder(tmp_path, mode)
    if kind == "prefix":
        return S3Prefix(request.getfixturevalue("s3_server"), request.getfixturevalue("bucket"), mode)
    if kind == "table":
        return PostgresTable(request.getfixturevalue("postgres_database").dsn, mode)
    if kind == "third party's board":
        return NoticeBoard()
    module, _, name = kind.rpartition(".")
    made: Source = getattr(import_module(module), name)()
    return made


@pytest.fixture
async def make(source: Source) -> AsyncIterator[Make]:
    """A maker of triggers on one client, as the host does it."""
    trigger = trigger_class(source.trigger)
    options = trigger.Options.model_validate(source.options)
    async with AsyncExitStack() as stack:
        client = None
        if source.connection is not None:
            assert source.connection["type"] == trigger.connection_type
            connection = connection_class(source.connection["type"]).model_validate(source.connection)
            client = await stack.enter_async_context(connection.open())
        yield lambda **context: trigger(options, client, TriggerContext(watcher="w", **context))


@pytest.fixture
async def trigger(make: Make) -> Trigger:
    return await checked(make())


async def checked(trigger: Trigger) -> Trigger:
    """Run the start-up checks of a trigger, before which the host calls nothing else."""
    assert [finding for finding in await trigger.check() if finding.level == "error"] == []
    return trigger


def items(source: Source, host: DictHost) -> list[Hashable]:
    return [item for event in host.events for item in source.items_of(event)]


async def watch(source: Source, host: DictHost, trigger: Trigger, expected: set[Hashable]) -> None:
    """Run until all expected items have come, and on through two more polls, or a shared poll, without news."""
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(host.run_for_ever, trigger)
            await host.until(lambda: set(items(source, host)) >= expected)
            polls, now = host.polls, monotonic()
            while host.polls < polls + 2 and (trigger.looked_at or 0.0) <= now:
                await anyio.sleep(0.01)
            tasks.cancel_scope.cancel()


async def test_each_finding_of_the_start_up_checks_is_a_sentence_and_has_its_remedy(trigger: Trigger) -> None:
    findings = await trigger.check()
    assert findings
    for finding in findings:
        assert finding.check
        assert finding.message
        assert finding.level == "ok" or finding.remedy


async def test_the_identity_of_a_source_is_json_and_the_same_for_every_instance(trigger: Trigger, make: Make) -> None:
    again = await checked(make())
    assert identity_json(trigger.source_identity()) == identity_json(again.source_identity())


async def test_an_item_comes_once_however_often_the_watcher_starts(source: Source, make: Make) -> None:
    host, added = DictHost(), set[Hashable]()
    for number in range(1, 8):
        added.add(source.add(number))
        if number % 2:
            await watch(source, host, await checked(make()), added)
    assert sorted(map(str, items(source, host))) == sorted(map(str, added))


@pytest.mark.parametrize("commits", [0, 1, 3])
async def test_a_batch_that_was_not_committed_comes_again_and_others_do_not(
    source: Source, make: Make, commits: int
) -> None:
    host, added = DictHost(), {source.add(number) for number in range(1, 6)}
    await watch(source, host, await checked(make()), added)
    added |= {source.add(number) for number in range(6, 11)}
    left = commits
    async with aclosing((await checked(make())).events(host.stored)) as batches:
        async for batch in batches:
            if left == 0 or (batch.position is None and batch.caught_up):
                break  # it dies with this batch in its hands
            if batch.position is not None:
                host.commit(batch.position, batch.events)
                left -= 1
    await watch(source, host, await checked(make()), added)
    assert sorted(map(str, items(source, host))) == sorted(map(str, added))


async def test_a_watcher_commits_where_it_begins_although_there_is_nothing_to_emit(
    source: Source, trigger: Trigger
) -> None:
    host = DictHost()
    await host.run(trigger)
    assert host.stored is not None
    assert isinstance(host.stored.state, dict)
    assert items(source, host) == []


async def test_events_say_how_many_items_they_stand_for_between_which_watermarks(
    source: Source, trigger: Trigger
) -> None:
    host, added = DictHost(), {source.add(number) for number in range(1, 6)}
    await watch(source, host, trigger, added)
    for event in host.events:
        assert event.count == len([*source.items_of(event)]) > 0
        assert {"from", "to"} == set(event.watermark)
        json.dumps([event.payload, event.watermark], allow_nan=False)


async def test_a_dry_run_deletes_nothing_at_the_source(source: Source, make: Make) -> None:
    added = {source.add(number) for number in range(1, 4)}
    dry, real = DictHost(), DictHost()
    await watch(source, dry, await checked(make(dry_run=True)), added)
    await watch(source, real, await checked(make()), added)
    assert sorted(map(str, items(source, real))) == sorted(map(str, items(source, dry)))


async def test_the_class_describes_every_watermark_it_commits(source: Source, trigger: Trigger) -> None:
    host = DictHost()
    descriptions = []
    added = {source.add(number) for number in range(1, 6)}
    async with aclosing(trigger.events(None)) as batches:
        async for batch in batches:
            if batch.position is not None:
                host.commit(batch.position, batch.events)
                descriptions.append(describe(source.trigger, host.watermark))
            if set(items(source, host)) >= added:
                break
    for description in descriptions:
        assert description.fault is None
        assert all(math.isfinite(number) for number in description.gauges.values())


async def test_a_rewind_to_the_start_brings_everything_again(source: Source, make: Make) -> None:
    host, added = DictHost(), {source.add(number) for number in range(1, 4)}
    await watch(source, host, await checked(make()), added)
    position = (await checked(make())).rewound(host.stored, "start")
    host.events.clear()
    host.commit(position)
    await watch(source, host, await checked(make()), added)
    assert sorted(map(str, items(source, host))) == sorted(map(str, added))


async def test_a_rewind_to_a_place_that_does_not_exist_is_refused(trigger: Trigger) -> None:
    with pytest.raises(ConfigurationError, match="no place"):
        trigger.rewound(None, "no place")


async def test_a_hint_ends_the_pause_between_two_polls(trigger: Trigger) -> None:
    if not isinstance(trigger, IncrementalTrigger):
        pytest.skip("it does not poll")
    trigger.wake()
    with anyio.fail_after(60):
        await trigger.rest(math.inf)


async def test_a_batch_says_that_a_poll_is_over_without_a_position(trigger: Trigger) -> None:
    async with aclosing(trigger.events(None)) as batches:
        with anyio.fail_after(60):
            last = [batch async for batch in _until_quiet(batches)][-1]
    assert not last.events


async def _until_quiet(batches: AsyncIterator[TriggerBatch]) -> AsyncIterator[TriggerBatch]:
    async for batch in batches:
        yield batch
        if batch.position is None and batch.caught_up:
            return


def test_a_uri_of_another_kind_implies_no_options(source: Source) -> None:
    assert trigger_class(source.trigger).defaults("x-nothing://of/ours") == {}


def test_options_refuse_what_they_do_not_know(source: Source) -> None:
    with pytest.raises(ValidationError, match="no_such_key"):
        trigger_class(source.trigger).Options.model_validate({**source.options, "no_such_key": 1})
