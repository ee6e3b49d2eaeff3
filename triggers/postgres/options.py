"""Options of `postgres.new_rows`; config.md lists the YAML keys."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cached_property
from typing import Annotated, Any, Final, Literal, Self, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field, field_validator, model_validator

from triggers.base import BaseOptions
from triggers.errors import ConfigurationError
from triggers.event_assets import EventTarget
from triggers.explanations import Explanation, as_json, cannot_tell, outside
from triggers.options import BatchOptions, Bytes, Duration, parse_time
from triggers.partition_keys import LONGEST, key_of_parts
from triggers.shared.postgres.sql import TableName, quoted

Place: TypeAlias = Literal["now", "all"] | int | datetime
"""A place to begin at; a time is in UTC."""

SMALLEST_ID: Final = -(2**63)
_LARGEST_ID: Final = 2**63 - 1
_LOG_REMEMBERS_NONE: Final = (
    "mode: log reads changes and remembers no rows; only the events with changes of this key are known"
)


_PLACES: Final = {
    "id": "start, now or an id",
    "updated_at": "start, now or an ISO timestamp like 2026-11-20T09:00:00Z",
    "log": "now",
}


def parse_place(value: Any) -> Any:
    """Return the place that a text names, with a time in UTC, and every other value unchanged. Raises ValueError."""
    if isinstance(value, str) and re.fullmatch("-?[0-9]{1,30}", value):
        return int(value)
    if not isinstance(value, str | datetime) or value in ("now", "all"):
        return value
    try:
        return parse_time(value)
    except ValueError:
        raise ValueError("write now, all, an id, or an ISO timestamp like 2026-11-20T09:00:00Z") from None


def check_place(place: Place, mode: str) -> None:
    """Raise ValueError for a place that a table watched in this mode does not have."""
    if mode == "id" and isinstance(place, datetime):
        raise ValueError("a timestamp needs mode: updated_at; with mode: id write now, all or an id")
    if mode == "log" and place != "now":
        raise ValueError("mode: log begins now; for rows that are there already, use mode: id beside it")
    if mode == "updated_at" and isinstance(place, int):
        raise ValueError("an id needs mode: id; with mode: updated_at write now, all or an ISO timestamp")
    if isinstance(place, int) and not SMALLEST_ID <= place <= _LARGEST_ID:
        raise ValueError("no id is that large: ids have 64 bits")


def place_of_rewind(to: str, mode: str) -> Place:
    """Return the place that a person wrote after `watcher rewind --to`. Raises ConfigurationError."""
    try:
        place: Place = parse_place("all" if to == "start" else to)
        check_place(place, mode)
    except ValueError as error:
        raise ConfigurationError(f"with mode: {mode} there is no rewind to {to!r}: write {_PLACES[mode]}") from error
    return place


_OF_THE_LOG: Final = ("publication", "max_retained")
_OF_ROWS: Final = ("column", "where", "unsafe_ids", "unsafe_where", "gap_alarm", "on_bad_row")
"""Options of modes that read rows."""


class RowBatch(BatchOptions):
    max_rows: int = Field(default=1000, ge=1, le=100_000)
    """The most rows that one event stands for, and that one statement reads above the highest id."""


class GapAlarm(BaseOptions):
    """Warn when `count` gaps are open, or when one writer has kept gaps open for `age`."""

    count: int = Field(default=1000, ge=1)
    age: Duration = timedelta(minutes=10)


_COLUMN: Final = "column"


def _values_of(written: str | tuple[str, ...]) -> tuple[str, ...]:
    return (written,) if isinstance(written, str) else written


def _check_assets(assets: dict[str, str | tuple[str, ...]]) -> dict[str, str | tuple[str, ...]]:
    column = assets.get(_COLUMN)
    if not isinstance(column, str) or len(assets) == 1:
        raise ValueError(
            "name a column, and for each asset one of its values or a list, as in {column: kind, orders: order}"
        )
    quoted(column)
    values = [value for name, written in assets.items() if name != _COLUMN for value in _values_of(written)]
    if twice := next((value for value in values if values.count(value) > 1), None):
        raise ValueError(f"has the value {twice!r} twice; a row goes to one asset: name it once")
    return assets


_Value: TypeAlias = Annotated[str, Field(max_length=LONGEST)]
AssetsByValue: TypeAlias = Annotated[
    dict[str, _Value | Annotated[tuple[_Value, ...], Field(min_length=1)]], AfterValidator(_check_assets)
]
"""The column that decides about a row's asset, as `column`, and the values of each asset's rows."""


class NewRowsOptions(BaseOptions):
    table: str
    mode: Literal["id", "updated_at", "log"] = "id"
    column: str = "id"
    time_zone: str | None = None
    witness: str | None = Field(default=None, min_length=1)
    columns: tuple[str, ...] = ()
    partition: dict[Annotated[str, Field(min_length=1, max_length=250)], str] | None = Field(default=None, min_length=1)
    assets: AssetsByValue | None = None
    where: str | None = Field(default=None, min_length=1)
    soft_delete: str | None = None
    interval: Duration = Field(default=timedelta(seconds=1), gt=timedelta(0))
    start: Annotated[Place, BeforeValidator(parse_place)] = "now"
    batch: RowBatch = RowBatch()
    listen: bool = False
    unsafe_ids: bool = False
    unsafe_where: bool = False
    gap_alarm: GapAlarm = GapAlarm()
    on_bad_row: Literal["stop", "report"] = "stop"
    lock_timeout: Duration = Field(default=timedelta(seconds=1), gt=timedelta(0), le=timedelta(seconds=30))
    lateness: Annotated[Duration, Field(le=timedelta(hours=1))] | None = None
    publication: Annotated[str, Field(min_length=1, max_length=63)] | None = None
    max_retained: Annotated[Bytes, Field(ge=1_000_000)] = 10_000_000_000

    @model_validator(mode="before")
    @classmethod
    def _column_of_the_mode(cls, data: Any) -> Any:
        if isinstance(data, dict) and data.get("mode") == "updated_at":
            return {"column": "updated_at", **data}
        return data

    @field_validator("table")
    @classmethod
    def _names_a_table(cls, value: str) -> str:
        return str(TableName.parse(value))

    @field_validator("column", "columns")
    @classmethod
    def _names_columns(cls, value: str | tuple[str, ...]) -> str | tuple[str, ...]:
        for name in (value,) if isinstance(value, str) else value:
            quoted(name)
        return value

    @field_validator("partition", mode="before")
    @classmethod
    def _names_parts(cls, value: Any) -> Any:
        if isinstance(value, str):
            raise ValueError("name the parts of the key and their columns, as in {day: order_day}")  # noqa: TRY004
        for column in value.values() if isinstance(value, dict) else ():
            quoted(str(column))
        return value

    @field_validator("soft_delete")
    @classmethod
    def _names_a_column(cls, value: str | None) -> str | None:
        if value is not None:
            quoted(value)
        return value

    @field_validator("time_zone")
    @classmethod
    def _names_a_zone(cls, value: str | None) -> str | None:
        if value is not None and not re.fullmatch(r"[A-Za-z_]+(/[A-Za-z0-9_+-]+)*", value):
            raise ValueError("write UTC or the name of a time zone, such as Asia/Kolkata")
        return value

    @model_validator(mode="after")
    def _soft_delete_fits_the_mode(self) -> Self:
        if self.soft_delete is not None and self.mode != "updated_at":
            raise ValueError("soft_delete needs mode: updated_at, which finds the update that marks a row as deleted")
        return self

    @model_validator(mode="after")
    def _time_zone_fits_the_mode(self) -> Self:
        if self.time_zone is not None and self.mode != "updated_at":
            raise ValueError("time_zone needs mode: updated_at; ids have no time zone")
        return self

    @model_validator(mode="after")
    def _lateness_fits_the_mode(self) -> Self:
        if self.lateness is not None and self.mode != "updated_at":
            raise ValueError("lateness needs mode: updated_at; ids are not compared with any clock")
        return self

    @model_validator(mode="after")
    def _options_fit_the_log(self) -> Self:
        others = _OF_ROWS if self.mode == "log" else _OF_THE_LOG
        fields = type(self).model_fields
        if given := [name for name, value in self if name in others and value != fields[name].default]:
            reason = (
                "mode: log reports every change of the table: remove" if self.mode == "log" else "mode: log alone has"
            )
            raise ValueError(f"{reason} {', '.join(given)}")
        return self

    @model_validator(mode="after")
    def _start_fits_the_mode(self) -> Self:
        try:
            check_place(self.start, self.mode)
        except ValueError as error:
            raise ValueError(f"start: {error}") from None
        return self

    @property
    def publication_name(self) -> str:
        """The publication of mode `log`; without the option its name follows from the table's."""
        return self.publication or f"asset_watcher_{hashlib.sha256(self.table.encode()).hexdigest()[:12]}"

    @property
    def dividing_columns(self) -> Sequence[str]:
        """The columns whose values decide which event a row is in: that of `assets` first, then those of the partition key."""
        of_asset = [] if self.assets is None else [str(self.assets[_COLUMN])]
        return of_asset if self.partition is None else [*of_asset, *self.partition.values()]

    @property
    def further_assets(self) -> Sequence[str]:
        return [] if self.assets is None else [name for name in self.assets if name != _COLUMN]

    def target_of(self, values: Sequence[str | None]) -> EventTarget:
        """Return the asset and the partition key of a row, by the values of the dividing columns."""
        if self.assets is None:
            return EventTarget(None, key_of_parts(values))
        value, *parts = values or [None]
        return EventTarget(self._asset_of.get(value), key_of_parts(parts))

    @cached_property
    def _asset_of(self) -> Mapping[str | None, str]:
        """The assets by the values of their rows."""
        assets = self.assets or {}
        return {value: name for name in self.further_assets for value in _values_of(assets[name])}

    @property
    def named_columns(self) -> Sequence[str]:
        """All columns that the table has to have."""
        cursor = () if self.mode == "log" else (self.column,)
        soft_delete = () if self.soft_delete is None else (self.soft_delete,)
        return [*cursor, *self.columns, *self.dividing_columns, *soft_delete]

    @property
    def source(self) -> TableName:
        return TableName.parse(self.table)

    def name_item(self, item: str) -> Explanation:
        value = as_json(item)
        if self.mode != "id":
            named = replace(cannot_tell(item), name=[*value.values()] if isinstance(value, dict) else value)
            return replace(named, sentence=_LOG_REMEMBERS_NONE) if self.mode == "log" else named
        if isinstance(value, bool) or not isinstance(value, int) or not SMALLEST_ID <= value <= _LARGEST_ID:
            return outside("it is no id: the watcher's rows have whole numbers")
        return replace(cannot_tell(item), in_ranges=True)
