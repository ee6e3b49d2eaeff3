"""Finds the other events that name the files of an event: of other watchers, and of this one after a rewind.

A file goes when all of them are done with it, however many watchers and assets it has.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from pydantic_core import from_json
from sqlalchemy.ext.asyncio import AsyncConnection

from store.detection import positions, starts
from store.features.clean_source import cleanings
from store.features.clean_source.overlapping_events import MOST_OVERLAPPING, overlapping
from store.runs import fates
from triggers.file_scan.options import FileOptions
from triggers.inventories import content_text
from watcher.features.clean_source.decision import decide
from watcher.triggerer.clients import Hosted


@dataclass(frozen=True, kw_only=True)
class EventInHand:
    """An event of a watcher, and the contents of its files that are to go, by number."""

    id: int
    hosted: Hosted
    contents: Mapping[int, Mapping[str, Any]]
    after: timedelta


async def wanted_elsewhere(
    connection: AsyncConnection, event: EventInHand, watchers: Iterable[Hosted], now: datetime
) -> Collection[int]:
    """Return the numbers of the files that another event names which is not done with them, or another watcher has yet to report."""
    wanted, naming = set[int](), defaultdict[int, set[int]](set)
    for names, numbers in await _places(connection, event, watchers):
        by_event = await _naming(connection, event, names, numbers)
        if by_event is None:
            return event.contents.keys()
        if event.hosted.name not in names:
            wanted |= {*numbers}.difference(*by_event.values())
        for event_id, named in by_event.items():
            naming[event_id] |= named
    recorded = await cleanings.of_events(connection, naming.keys())
    of_events = await fates.at_jobs(connection, naming.keys())
    for event_id, named in naming.items():
        at_jobs = of_events.get(event_id, ())
        owed = recorded[event_id].owed if event_id in recorded else {each.dag_id for each in at_jobs}
        if decide(owed, at_jobs, event.after, now).verdict != "clean":
            wanted |= named
    return wanted


async def _naming(
    connection: AsyncConnection, event: EventInHand, watchers: Collection[str], numbers: Sequence[int]
) -> Mapping[int, set[int]] | None:
    """Return the other events of these watchers that name some of these files, with their numbers. None: there are too many to read."""
    texts = {content_text(event.contents[number]): number for number in numbers}
    contents = [event.contents[number] for number in numbers]
    written = {str(each.get("key") or each["path"]): str(each["last_modified"]) for each in contents}
    candidates = await overlapping(connection, watchers, written)
    if len(candidates) > MOST_OVERLAPPING:
        return None
    naming: defaultdict[int, set[int]] = defaultdict(set)
    for event_id in candidates:
        if event_id != event.id:
            files = from_json((await cleanings.files_of(connection, event_id)).extra).get("files", ())
            for text in map(content_text, files):
                if text in texts:
                    naming[event_id].add(texts[text])
    return naming


async def _places(
    connection: AsyncConnection, event: EventInHand, watchers: Iterable[Hosted]
) -> Sequence[tuple[Collection[str], Sequence[int]]]:
    """Return the watchers, by all their names, whose events may name the files too, with the numbers of these files."""
    past = await starts.past_of(connection, event.hosted.name)
    places: list[tuple[Collection[str], Sequence[int]]] = []
    if past.moves:  # else a watcher reports no content twice
        places.append((past.names, [*event.contents]))
    others = [other for other in watchers if other.name != event.hosted.name]
    selected = [(other, numbers) for other in others if (numbers := _selected(other, event.contents))]
    if selected:
        endpoints = _endpoints(await positions.identities(connection))
        own_endpoint = endpoints.get(event.hosted.name)
        places += [
            ([other.name], numbers)
            for other, numbers in selected
            if endpoints.get(other.name, own_endpoint) == own_endpoint
        ]
    return places


def _selected(other: Hosted, contents: Mapping[int, Mapping[str, Any]]) -> Sequence[int]:
    """Return the numbers of the files that another watcher selects, by its options."""
    options = other.options
    if not isinstance(options, FileOptions):
        return ()
    matcher = options.matcher
    return [
        number
        for number, content in contents.items()
        if options.name_item(address_of(content)).state != "outside"
        and content["size"] >= options.min_size
        and matcher(options.name_below(str(content.get("key") or content["path"])))
    ]


def address_of(content: Mapping[str, Any]) -> str:
    """Return the address of a file, as people write it, from what an event says of it."""
    return f"s3://{content['bucket']}/{content['key']}" if "key" in content else str(content["path"])


def _endpoints(identities: Mapping[str, str]) -> Mapping[str, Any]:
    return {name: json.loads(identity).get("endpoint") for name, identity in identities.items()}
