"""What a run of `builtin:ingest` is to do, from its options, outlets and events. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Literal

from ..errors import AssetJobError
from ..events import AssetEvent
from ..sources.request import format_by_name
from ..tables.columns import SchemaEvolution
from ..tables.layout import Place, place_of
from ..tables.targets import TableFormat


@dataclass(frozen=True, kw_only=True)
class IngestOptions:
    """`spark.options` as the daemon sends them, checked there."""

    target: str | None = None
    format: TableFormat = "parquet"
    schema_evolution: SchemaEvolution = "strict"
    schema: str | None = None
    partition_by: tuple[str, ...] = ()
    dedupe_key: tuple[str, ...] = ()
    bad_records: str | None = None
    input_format: str | None = None
    missing: Literal["fail", "skip"] = "fail"
    connection: str | None = None
    target_connection: str | None = None

    @classmethod
    def of(cls, sent: Mapping[str, Any]) -> IngestOptions:
        known = {name: value for name, value in sent.items() if name in cls.__dataclass_fields__ and value is not None}
        lists = {name: _words(known.get(name, ())) for name in ("partition_by", "dedupe_key")}
        return cls(**{**known, **lists})


def _words(value: str | Sequence[str]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


@dataclass(frozen=True, kw_only=True)
class Destination:
    """`outlet` is the asset whose store tells of the table."""

    outlet: str
    target: str
    bad_records: str


def destination(options: IngestOptions, outlets: Mapping[str, str]) -> Destination:
    """`outlets`: name -> uri. Raises `AssetJobError`."""
    is_place = options.target is not None and options.format != "iceberg"
    place = place_of(str(options.target), outlets) if is_place else None
    fitting = [name for name in outlets if place is None or name == options.target or _at(outlets, name) == place]
    [outlet, *others] = fitting or list(outlets) or [""]
    if others or not outlet:
        raise AssetJobError(
            "builtin:ingest tells of its table in the asset store of one outlet: give the job exactly one asset as outlet, "
            "or one whose uri is the target"
        )
    if place is None and not (options.format == "iceberg" and options.bad_records):
        place = place_of(outlet, outlets)
    target = options.target if options.format == "iceberg" and options.target else str(place)
    return Destination(outlet=outlet, target=target, bad_records=options.bad_records or f"{place}_bad")


def _at(outlets: Mapping[str, str], name: str) -> Place | None:
    try:
        return place_of(name, outlets)
    except AssetJobError:
        return None


@dataclass(frozen=True, kw_only=True)
class Source:
    """What one read takes: files of one format, or the events of rows of one table."""

    given: Sequence[Any]
    format: str | None
    """None: rows."""
    columns: tuple[str, ...] | None = None
    """What it has; None: the schema's, as far as that was looked at."""


def sources(events: Mapping[str, Sequence[AssetEvent]], input_format: str | None) -> list[Source]:
    """Each asset's files by format, and its rows. Raises `AssetJobError` for a file of no known format."""
    inputs: list[Source] = []
    for of_asset in events.values():
        by_format: dict[str, list[Mapping[str, Any]]] = {}
        for file in (file for event in of_asset for file in event.extra.get("files", ())):
            by_format.setdefault(_format(file, input_format), []).append(file)
        inputs += [Source(given=files, format=name) for name, files in by_format.items()]
        by_table: dict[str, list[AssetEvent]] = {}
        for event in of_asset:
            if event.extra.get("ranges") or event.extra.get("keys"):
                by_table.setdefault(event.extra["table"], []).append(event)
        inputs += [Source(given=of_table, format=None) for of_table in by_table.values()]
    return inputs


def _format(file: Mapping[str, Any], input_format: str | None) -> str:
    name = str(file.get("key") or file.get("path"))
    chosen = input_format or format_by_name(name)
    if chosen is None:
        raise AssetJobError(f"say how to read {name} by spark.options.input_format: json, csv, text or parquet")
    return chosen


def watermark(events: Mapping[str, Sequence[AssetEvent]], before: Any) -> Any:
    """How far the events reach, of several assets by name; never back behind `before`, for an older run may be repeated."""
    ends = {name: end for name, of_asset in events.items() if (end := _end(of_asset)) is not None}
    earlier = before if isinstance(before, Mapping) else {}
    if len(ends) == 1 and not isinstance(before, Mapping):
        return _later(before, next(iter(ends.values())))
    return {**earlier, **{name: _later(earlier.get(name), end) for name, end in ends.items()}} or before


def _end(events: Iterable[AssetEvent]) -> Any:
    marks = (event.extra.get("watermark") for event in events)
    return reduce(_later, (mark.get("to") for mark in marks if isinstance(mark, Mapping)), None)


def _later(one: Any, other: Any) -> Any:
    if one is None or other is None:
        return other if one is None else one
    comparable = type(one) is type(other) and isinstance(one, (int, float, str))
    return max(one, other) if comparable else other
