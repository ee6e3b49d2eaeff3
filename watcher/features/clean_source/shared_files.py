"""Finds the other events that name the files of an event: of other watchers, and of this one after a rewind.

A file goes when all of them are done with it, however many watchers and assets it has.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from pydantic_core import from_json
from sqlalchemy.ext.asyncio import AsyncConnection

from store.detection import positions, starts
from store.features.clean_source import cleanings
from store.features.clean_source.overlapping_events import MOST_OVERLAPPING, overlapping
from store.features.clean_source.owed_jobs import owed_events
from store.features.clean_source.removed_files import FileOfEvent
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


@dataclass(frozen=True, kw_only=True)
class SharedFiles:
    """Which files of an event stay because they are wanted elsewhere, by number, and the same files by other events that name them."""

    wanted: Collection[int]
    others: Mapping[int, Sequence[FileOfEvent]] = field(default_factory=dict)


NOT_SHARED: Final = SharedFiles(wanted=())


async def shared_files(
    connection: AsyncConnection, event: EventInHand, watchers: Iterable[Hosted], now: datetime
) -> SharedFiles:
    """Find the other events that name the files. A file is wanted if one is not done with it, or another watcher has yet to report it."""
    wanted, others = set[int](), defaultdict[int, list[FileOfEvent]](list)
    for names, numbers in await _places(connection, event, watchers):
        by_number = await _naming(connection, event, names, numbers)
        if by_number is None:
            return SharedFiles(wanted=event.contents.keys())
        if event.hosted.name not in names:
            wanted |= {*numbers} - by_number.keys()
        for number, files in by_number.items():
            others[number] += files
    naming = {each.event_id for files in others.values() for each in files}
    free = dict(zip(sorted(naming), await may_go(connection, naming, event.after, now), strict=True))
    wanted |= {number for number, files in others.items() if not all(free[each.event_id] for each in files)}
    return SharedFiles(wanted=wanted, others=others)


async def may_go(
    connection: AsyncConnection, event_ids: Collection[int], after: timedelta, now: datetime
) -> Sequence[bool]:
    """Return for each of these events, in order of their ids, whether all its jobs are done with its files."""
    ids = sorted(event_ids)
    recorded = await cleanings.of_events(connection, ids) if ids else {}
    owed = await owed_events(
        connection, {event_id: recorded[event_id].owed if event_id in recorded else None for event_id in ids}
    )
    return [decide(owed[each].jobs, owed[each].at_jobs, after, now).verdict == "clean" for each in ids]


async def _naming(
    connection: AsyncConnection, event: EventInHand, watchers: Collection[str], numbers: Sequence[int]
) -> Mapping[int, Sequence[FileOfEvent]] | None:
    """Return the files of other events of these watchers that are some of these files, by number. None: there are too many to read."""
    texts = {content_text(event.contents[number]): number for number in numbers}
    contents = [event.contents[number] for number in numbers]
    written = {str(each.get("key") or each["path"]): str(each["last_modified"]) for each in contents}
    candidates = await overlapping(connection, watchers, written)
    if len(candidates) > MOST_OVERLAPPING:
        return None
    naming: defaultdict[int, list[FileOfEvent]] = defaultdict(list)
    for event_id in candidates:
        if event_id != event.id:
            files = from_json((await cleanings.files_of(connection, event_id)).extra).get("files", ())
            for place, text in enumerate(map(content_text, files)):
                if text in texts:
                    naming[texts[text]].append(FileOfEvent(event_id, place))
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
