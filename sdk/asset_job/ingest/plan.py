"""Plan a run of `builtin:ingest` from its options, outlets and events. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import reduce
from typing import Any, Literal

from asset_job.data import SchemaEvolution, TableFormat
from asset_job.errors import AssetJobError, NoRetry
from asset_job.events import AssetEvent
from asset_job.sources.request import format_by_name
from asset_job.tables.layout import TableLocation, location_of


@dataclass(frozen=True, kw_only=True)
class IngestJobOptions:
    """The `spark.options` of a job that runs `builtin:ingest`. The daemon has checked them."""

    target: str | None = None
    format: TableFormat = "parquet"
    schema_evolution: SchemaEvolution = "strict"
    schema: str | None = None
    partition_by: tuple[str, ...] = ()
    dedupe_key: tuple[str, ...] = ()
    merge: bool = False
    bad_records: str | None = None
    max_bad_records: str | int = "50%"
    input_format: str | None = None
    input_options: Mapping[str, Any] = field(default_factory=dict)
    on_unrepresentable: Literal["fail", "bad", "null", "text"] = "bad"
    missing: Literal["fail", "skip"] = "fail"
    connection: str | None = None
    target_connection: str | None = None

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> IngestJobOptions:
        """The options as the daemon sends them. None means the default, and unknown options are ignored."""
        return cls(
            target=content.get("target"),
            format=content.get("format") or "parquet",
            schema_evolution=content.get("schema_evolution") or "strict",
            schema=content.get("schema"),
            partition_by=_names(content.get("partition_by")),
            dedupe_key=_names(content.get("dedupe_key")),
            merge=bool(content.get("merge")),
            bad_records=content.get("bad_records"),
            max_bad_records=cls.max_bad_records if (most := content.get("max_bad_records")) is None else most,
            input_format=content.get("input_format"),
            input_options=content.get("input_options") or {},
            on_unrepresentable=content.get("on_unrepresentable") or "bad",
            missing=content.get("missing") or "fail",
            connection=content.get("connection"),
            target_connection=content.get("target_connection"),
        )


def _names(value: str | Sequence[str] | None) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value or ())


@dataclass(frozen=True, kw_only=True)
class IngestDestination:
    """The table to which a run loads, and the one for its bad records."""

    outlet: str
    """The asset whose store describes the table."""
    target: str
    bad_records: str
    """The target for records that do not fit the schema."""


def destination(options: IngestJobOptions, outlets: Mapping[str, str]) -> IngestDestination:
    """The destination of a job with these options and outlets (name -> uri). Raises `AssetJobError`."""
    if options.format == "iceberg":
        return _iceberg_destination(options, outlets)
    location = None if options.target is None else location_of(options.target, outlets)
    outlet = _only_outlet(outlets, options.target, location)
    target = str(location_of(outlet, outlets) if location is None else location)
    return IngestDestination(outlet=outlet, target=target, bad_records=options.bad_records or f"{target}_bad")


def _iceberg_destination(options: IngestJobOptions, outlets: Mapping[str, str]) -> IngestDestination:
    """The destination of an Iceberg table, which a name in its catalog and no location identifies."""
    outlet = _only_outlet(outlets, None, None)
    location = None if options.bad_records else location_of(outlet, outlets)
    return IngestDestination(
        outlet=outlet,
        target=options.target or str(location),
        bad_records=options.bad_records or f"{location}_bad",
    )


def _only_outlet(outlets: Mapping[str, str], target: str | None, location: TableLocation | None) -> str:
    """The outlet that is the target or has its location, or else the only one. Raises `AssetJobError`."""
    fitting = [
        name for name in outlets if location is None or name == target or _location_of_outlet(outlets, name) == location
    ]
    [outlet, *more] = fitting or list(outlets) or [""]
    if more or not outlet:
        raise AssetJobError(
            "builtin:ingest describes its table in the asset store of one outlet: give the job exactly one asset as outlet, "
            "or one whose uri is the target"
        )
    return outlet


def _location_of_outlet(outlets: Mapping[str, str], name: str) -> TableLocation | None:
    """Where an outlet lies; None if no table can be written there."""
    try:
        return location_of(name, outlets)
    except AssetJobError:
        return None


@dataclass(frozen=True, kw_only=True)
class IngestInput:
    """What one read takes: files of one format, or the events that name rows of one table."""

    items: Sequence[Any]
    format: str | None
    """The format of the files; None: the items are events that name rows."""
    columns: tuple[str, ...] | None = None
    """The columns that the input has; None: not determined, so the schema's are read."""


def ingest_inputs(events: Mapping[str, Sequence[AssetEvent]], input_format: str | None) -> list[IngestInput]:
    """The inputs of a run: each asset's files by format, and its rows by table. Raises `AssetJobError` for an unknown format."""
    inputs: list[IngestInput] = []
    for of_asset in events.values():
        by_format: dict[str, list[Mapping[str, Any]]] = {}
        for file in (file for event in of_asset for file in event.data_files):
            by_format.setdefault(_format(file, input_format), []).append(file)
        inputs += [IngestInput(items=files, format=name) for name, files in by_format.items()]
        by_table: dict[str, list[AssetEvent]] = {}
        for event in of_asset:
            if event.extra.get("ranges") or event.extra.get("keys"):
                by_table.setdefault(event.extra["table"], []).append(event)
        inputs += [IngestInput(items=of_table, format=None) for of_table in by_table.values()]
    return inputs


def _format(file: Mapping[str, Any], input_format: str | None) -> str:
    name = str(file.get("key") or file.get("path"))
    chosen = input_format or format_by_name(name)
    if chosen is None:
        raise AssetJobError(f"name the format of {name} by spark.options.input_format: json, csv, text or parquet")
    return chosen


def columns_named(option: str, names: Sequence[str], columns: Sequence[str]) -> tuple[str, ...]:
    """The columns that an option names, as the schema writes them. Raises `NoRetry` for a name that is none of them."""
    exact = {name.lower(): name for name in columns} | {name: name for name in columns}
    missing = [name for name in names if name not in exact and name.lower() not in exact]
    if missing:
        raise NoRetry(
            f"{option} names {', '.join(missing)}, but the columns are {', '.join(columns)}: correct {option}"
        )
    return tuple(exact.get(name) or exact[name.lower()] for name in names)


@dataclass(frozen=True, kw_only=True)
class RecordCounts:
    """What one read of the inputs has shown."""

    good: int
    bad_rows: int
    """The rows of the table of bad records. One of them may stand for several records."""
    bad: int
    nulled: int
    """Values that became null, because Spark has no value for them."""

    def check_written(self, good: int, bad_rows: int, *, may_drop: bool) -> None:
        """Raise `AssetJobError` if other rows were written than counted: an executor was lost, and a table has changed since.

        `may_drop`: duplicates were dropped.
        """
        is_same = good <= self.good if may_drop else good == self.good
        if not is_same or bad_rows != self.bad_rows:
            raise AssetJobError(
                f"{self.good} rows and {self.bad_rows} bad records were read and {good} and {bad_rows} were to be written: the "
                "source has changed while it was read: retry the run"
            )


VALUE_IN_REASON = r"""(?s)'[^']*'|"[^"]*"|(?<=there is ).*|(?<=, and )\S+|(?<=value is )\S+|(?<= holds )\S+"""
"""The values in the reasons of bad records, as a regular expression: reasons that differ in them only are one reason."""


@dataclass(frozen=True, kw_only=True)
class BadRecordSummary:
    """What is to be said about the bad records of a run."""

    bad: int
    records: int
    """All records, good and bad."""
    reason: str
    """The commonest reason."""
    times: int
    places: Sequence[str]
    """File and place of the first ones."""

    def __str__(self) -> str:
        times = "once" if self.times == 1 else f"{self.times} times"
        places = ", ".join(self.places)
        return f"{self.bad} of {self.records} records are bad: {self.reason} ({times}; the first: {places})"

    def check(self, limit: str | int) -> None:
        """Raise `NoRetry` if these are more than `max_bad_records` allows. A share has no meaning for a single record."""
        text = str(limit)
        if text.endswith("%"):
            is_allowed = self.records == 1 or self.bad * 100 <= Decimal(text[:-1]) * self.records
        else:
            is_allowed = self.bad <= int(text)
        if not is_allowed:
            raise NoRetry(
                f"nothing was loaded, because max_bad_records is {limit} and {self}; correct the source or the "
                "options, or raise max_bad_records, and retry the run"
            )


def watermark(events: Mapping[str, Sequence[AssetEvent]], before: Any) -> Any:
    """How far the events reach, by asset if there are several; never less than `before`, because an older run may be repeated."""
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
