"""The events whose files are moved or deleted, and the watchers that have it so."""

from __future__ import annotations

from typing import Final

from sqlalchemy import Boolean, Column, Float, ForeignKey, Index, Integer, String, Text, false, text

from store.database.lifecycle import DeletedWith, Follows, Lifecycle, NameRule, RemovedBy, RowOwner
from store.database.schema import UtcDateTime
from store.database.tables import NAME, table

IS_SOUGHT: Final = text("place = '{}'")

cleaning = table(  # events whose files are to be moved or deleted once every job has loaded them
    "cleaning",
    Lifecycle(
        owner=RowOwner.WATCHER,
        kept=(DeletedWith(table="asset_event", columns={"event_id": "id"}, by_database=True),),
        names={"watcher": Follows()},
    ),
    Column("event_id", ForeignKey("asset_event.id", ondelete="CASCADE"), primary_key=True, autoincrement=False),
    Column("watcher", NAME, nullable=False),
    Column("owed", Text, nullable=False),  # JSON: the jobs that got the event in the transaction that stored it
    Column("state", String(16), nullable=False),  # waiting | staying | done
    Column("reason", String(16)),  # why its files wait or stay
    Column("due_at", UtcDateTime),  # when its watcher's host looks at it next; null: never
    Column("passes", Integer, nullable=False, server_default="0"),  # how often all its files were gone through
    Column("next_file", Integer, nullable=False, server_default="0"),  # the next place in `files`
    Column("files", Text),  # JSON: the numbers of the files that this pass goes through; null: all
    Column("staying", Text, nullable=False, server_default="{}"),  # JSON: by number, why a file of this pass stays
    Column("working", Text),  # JSON: the files in hand, and how far they have come; null: none
    Column("removed", Integer, nullable=False, server_default="0"),  # how many files were moved or deleted
    Index("ix_cleaning_watcher_due_at", "watcher", "due_at"),
    feature="clean_source",
)

cleaned_watcher = table(  # the watchers whose events' files are moved or deleted, as configured
    "cleaned_watcher",
    Lifecycle(
        owner=RowOwner.WATCHER,
        kept=(RemovedBy(function="store.features.clean_source.recording.apply"),),
        names={"watcher": NameRule.AS_WRITTEN},
    ),
    Column("watcher", NAME, primary_key=True),
    Column("after_seconds", Float, nullable=False),  # how long files stay at least after every job has loaded them
    feature="clean_source",
)

removed_file = table(  # the files of events that were moved or deleted, whichever watcher's event they went with
    "removed_file",
    Lifecycle(
        owner=RowOwner.ASSET,
        kept=(DeletedWith(table="asset_event", columns={"event_id": "id"}, by_database=True),),
    ),
    Column("event_id", ForeignKey("asset_event.id", ondelete="CASCADE"), primary_key=True, autoincrement=False),
    Column("number", Integer, primary_key=True, autoincrement=False),  # its place in the event's `files`, from 0
    Column("place", Text),  # JSON: what differs at its new place; `{}`: not known yet; null: it was deleted
    Column("in_hand", Boolean, nullable=False, server_default=false()),  # it is being removed
    Index("ix_removed_file_sought", "event_id", postgresql_where=IS_SOUGHT, sqlite_where=IS_SOUGHT),
    feature="clean_source",
)

TABLES: Final = (cleaning, cleaned_watcher, removed_file)
