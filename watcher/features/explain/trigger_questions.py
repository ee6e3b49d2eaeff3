"""Asks watchers and their triggers about one item, with the committed position and within a few seconds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Final

import anyio

from store.database import Database
from store.detection import position_rows, positions
from store.detection.positions import LoadedPosition
from triggers.base import StoredPosition
from triggers.errors import SourceBusy
from triggers.explanations import Explains, Explanation, NamesItems, cannot_tell
from watcher.host.containment import is_cancelled, sentence
from watcher.triggerer.clients import Hosted, open_trigger
from watcher.triggerer.committing import stored
from watcher.triggerer.control import Control

EXPLAIN_WITHIN: Final = 5.0
"""Seconds that a source has to answer about one item."""


class WholeSetNeeded(Exception):
    """A trigger wants more of its large set than single members."""


class SomeMembers(Mapping[int, int]):
    """The members of a large set that were read so far. It notes which others were asked for."""

    def __init__(self) -> None:
        self.members: dict[int, int] = {}
        self.asked: set[int] = set()

    def __contains__(self, member: object) -> bool:
        if isinstance(member, int):
            self.asked.add(member)
        return member in self.members

    def __getitem__(self, member: int) -> int:
        self.asked.add(member)
        return self.members[member]

    def __iter__(self) -> Iterator[int]:
        raise WholeSetNeeded

    def __len__(self) -> int:
        raise WholeSetNeeded


def could_have(control: Control, item: str) -> Sequence[str]:
    """Return the watchers that could have an item, by their options alone."""
    return [name for name, hosted in control.hosted.items() if _named(hosted, item).state != "outside"]


def _named(hosted: Hosted, item: str) -> Explanation:
    """Return what the watcher's options alone say of an item: that it cannot be one of the source, or how events name it."""
    options = hosted.options
    return options.name_item(item) if isinstance(options, NamesItems) else cannot_tell(item)


async def explain(control: Control, name: str, item: str) -> Explanation:
    """Return what a watcher's trigger says about an item. Raises `NotFound` for a watcher that is not configured, and nothing else.

    If the source does not answer, the reason and the name of the item are returned, so that its events can be found.
    """
    hosted = control.known(name)
    named = _named(hosted, item)
    if named.state == "outside":
        return named
    with anyio.move_on_after(EXPLAIN_WITHIN):
        try:
            patience = timedelta(seconds=EXPLAIN_WITHIN)
            made = open_trigger(hosted, control.clients, patience, has_position=True, dry_run=True)
            async with made as trigger:
                explains = trigger.ability(Explains)
                return cannot_tell(item) if explains is None else await _asked(explains, name, item, control.database)
        except SourceBusy as error:
            return replace(named, state="waiting", sentence=str(error), facts={"reason": "lock"})
        except BaseException as error:
            if is_cancelled() and isinstance(error, anyio.get_cancelled_exc_class()):
                raise
            return replace(named, sentence=f"the source could not be asked: {sentence(error)}")
    return replace(named, sentence=f"the source did not answer within {EXPLAIN_WITHIN:g} s")


async def _asked(explains: Explains[StoredPosition], name: str, item: str, database: Database) -> Explanation:
    """Ask the trigger. A large set is read as a whole only if the trigger needs it."""
    async with database.reading() as connection:
        loaded = await positions.read_without_rows(connection, name)
    some = SomeMembers()
    try:
        while True:
            explanation = await explains.explain(item, _with(loaded, some))
            unread, some.asked = some.asked - some.members.keys(), set()
            async with database.reading() as connection:
                members = await position_rows.members_of(connection, name, unread)
            if not members:
                return explanation
            some.members.update(members)
    except WholeSetNeeded:
        async with database.reading() as connection:
            whole = await positions.read(connection, name)
        return await explains.explain(item, None if whole is None else stored(whole))


def _with(loaded: LoadedPosition | None, rows: Mapping[int, int]) -> StoredPosition | None:
    position = None if loaded is None else stored(loaded)
    return None if position is None else StoredPosition(state=position.state, rows=rows)
