"""`builtin:ingest` with `merge`: the table becomes what its source is, by the changes or the rows and deletions that events name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from asset_job.errors import AssetJobError
from asset_job.events import AssetEvent
from asset_job.ingest.plan import IngestJobOptions
from asset_job.runs import Run
from asset_job.sources.arrow import arrow_schema
from asset_job.sources.readers import inferred_schema, row_frames
from asset_job.sources.request import ReadRequest, RowSelection
from asset_job.tables.merge.changes import Key, NetChange, NetChanges, key_text
from asset_job.tables.merge.key_search import typed_keys
from asset_job.tables.merge.merge_rows import ChangedRows, MergeRows, SourceRows, typed_values
from asset_job.tables.merge.merged_part import arrow_types, changed_rows


def merge_rows(run: Run, options: IngestJobOptions, schema: str | None) -> MergeRows:
    """What the events of a run name, to be merged. Raises `AssetJobError` for events that name neither changes nor keys."""
    events = run.triggering_asset_events.in_order()
    with_changes = ["changes" in event.extra for event in events]
    if other := [event for event in events if not {"changes", "keys"} & event.extra.keys()]:
        raise AssetJobError(
            f"the event {other[0].id} of {other[0].asset} has neither changes nor keys, by which rows are merged: watch the table in "
            "mode: log or mode: updated_at, or load without merge"
        )
    if len({event.extra.get("table") for event in events}) != 1 or len({*with_changes}) != 1:
        raise AssetJobError("merge takes the rows of one table in one mode: give each table and mode a job of its own")
    request = ReadRequest(
        spark=run.spark,
        connections=run.connections,
        schema=schema,
        connection=options.connection,
        on_unrepresentable="fail" if options.on_unrepresentable == "bad" else options.on_unrepresentable,
    )
    return _changed(run, request, options, events) if with_changes[0] else _read(request, options, events)


def _changed(run: Run, request: ReadRequest, options: IngestJobOptions, events: Sequence[AssetEvent]) -> ChangedRows:
    """The changes of events. Without a schema, a new table gets the types of the source, if its connection is listed."""
    rows = changed_rows(
        run.triggering_asset_events.changes(),
        options.dedupe_key,
        run.triggering_asset_events.ids_by_lsn,
        lambda ddl: arrow_types(request.spark, ddl),
        None if request.schema is None else arrow_types(request.spark, request.schema),
    )
    if request.schema is not None or not any(each.get("type") == "postgres" for each in run.connections.values()):
        return rows
    source = arrow_types(request.spark, inferred_schema(request, events))
    if not {*rows.names} <= {*source.names}:
        return rows
    return replace(rows, schema=pa.schema([source.field(name) for name in rows.names]))


def _read(request: ReadRequest, options: IngestJobOptions, events: Sequence[AssetEvent]) -> SourceRows:
    """The rows of the events' keys as they are now, and as deletions those that are gone or that the last event calls deleted."""
    living: dict[str, Key] = {}
    keys: dict[str, Key] = {}
    for event in events:
        for key in map(_key, event.extra["keys"]):
            living[key_text(key)] = keys[key_text(key)] = key
        for key in map(_key, event.extra.get("deleted", ())):
            keys[key_text(key)] = key
            living.pop(key_text(key), None)
    selection = RowSelection(
        table=events[-1].extra["table"],
        column=events[-1].extra.get("column", ""),
        keys=tuple(key if len(key) > 1 else key[0] for key in living.values()),
    )
    rows, places = pa.table({}), {}
    if living:
        frame = row_frames(request, selection).frame()
        rows = frame.toArrow().cast(arrow_schema(frame))
        places = _places(rows, list(living.values()), options.dedupe_key)
    known: Mapping[str, Any] = dict.fromkeys(rows.column_names)
    mark = (events[-1].id, 0)
    changes = {
        text: NetChange(key=key, mark=mark, row=known, base=key)
        if text in places
        else NetChange(key=key, mark=mark, row=None)
        for text, key in keys.items()
    }
    return SourceRows(changes=NetChanges(of_keys=changes), merge_on=options.dedupe_key, rows=rows, places=places)


def _key(value: Any) -> Key:
    return tuple(value) if isinstance(value, list) else (value,)


def _places(rows: pa.Table, keys: Sequence[Key], names: Sequence[str]) -> dict[str, int]:
    """The text of each key whose row was read -> the row's place. Raises `AssetJobError`."""
    own = {name.lower(): name for name in rows.column_names}
    if any(name.lower() not in own for name in names) or any(len(key) != len(names) for key in keys):
        raise AssetJobError(
            f"dedupe_key names {', '.join(names)}, which are not the columns of the source's primary key in their order: correct it"
        )
    columns = [own[name.lower()] for name in names]
    schema = pa.schema([rows.schema.field(name) for name in columns])
    given = typed_values(((key, dict(zip(columns, key, strict=True))) for key in keys), schema)
    read = {typed: place for place, typed in enumerate(typed_keys(rows, columns))}
    pairs = zip(keys, typed_keys(given, columns), strict=True)
    return {key_text(key): read[typed] for key, typed in pairs if typed in read}
