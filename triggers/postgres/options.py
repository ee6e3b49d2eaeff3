"""Options of `postgres.new_rows`; config.md lists the YAML keys."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Annotated, Any, Final, Literal, Self, TypeAlias

from pydantic import BeforeValidator, ConfigDict, Field, field_validator, model_validator

from triggers.base import BaseOptions
from triggers.errors import ConfigurationError
from triggers.explanations import Explanation, as_json, cannot_tell, outside
from triggers.hosting import RewindPlace
from triggers.options import Duration, parse_time
from triggers.postgres.table_options import KeysOfOthers, TableOptions, schema_of_others, without_keys_of_others
from triggers.shared.postgres.sql import quoted
from triggers.shared.postgres.values import LARGEST_ID, SMALLEST_ID

Place: TypeAlias = Literal["now", "all"] | int | datetime
"""A place to begin at; a time is in UTC."""

_PLACES: Final = {
    "id": "start, now or an id",
    "updated_at": "start, now or an ISO timestamp like 2026-11-20T09:00:00Z",
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
    if mode == "updated_at" and isinstance(place, int):
        raise ValueError("an id needs mode: id; with mode: updated_at write now, all or an ISO timestamp")
    if isinstance(place, int) and not SMALLEST_ID <= place <= LARGEST_ID:
        raise ValueError("no id is that large: ids have 64 bits")


def place_of_rewind(to: str, mode: str) -> Place:
    """Return the place that a person wrote after `watcher rewind --to`. Raises ConfigurationError."""
    try:
        place: Place = parse_place("all" if to == "start" else to)
        check_place(place, mode)
    except ValueError as error:
        raise ConfigurationError(f"with mode: {mode} there is no rewind to {to!r}: write {_PLACES[mode]}") from error
    return place


class GapAlarm(BaseOptions):
    """Warn when `count` gaps are open, or when one writer has kept gaps open for `age`."""

    count: int = Field(default=1000, ge=1)
    age: Duration = timedelta(minutes=10)


_OF_ONE_MODE: Final[Mapping[str, tuple[str, str]]] = {
    "soft_delete": ("updated_at", ", which finds the update that marks a row as deleted"),
    "time_zone": ("updated_at", "; ids have no time zone"),
    "lateness": ("updated_at", "; ids are not compared with any clock"),
}
"""The keys that one mode alone has, that mode, and why the other has none. They are null by default."""
_OF_CHANGES: Final[KeysOfOthers] = {
    "publication": (None,),
    "max_retained": ("10GB", "10000MB", "10000000000", 10_000_000_000),
}
_CHANGES_ALONE_HAVE: Final = "mode: log alone has {}: remove it, or write `trigger: postgres.changes`"
_LOG: Final = "mode: log is a trigger of its own: write `trigger: postgres.changes` where that is installed, else id or updated_at"


@dataclass(frozen=True, kw_only=True, slots=True)
class ByIdOptions:
    """What mode `id` alone goes by."""

    unsafe_ids: bool
    witness: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class ByUpdateOptions:
    """What mode `updated_at` alone goes by."""

    time_zone: str | None
    lateness: timedelta | None
    soft_delete: str | None


class NewRowsOptions(TableOptions):
    model_config = ConfigDict(json_schema_extra=schema_of_others(_OF_CHANGES))

    mode: Literal["id", "updated_at"] = "id"
    column: str = "id"
    time_zone: str | None = None
    witness: str | None = Field(default=None, min_length=1)
    where: str | None = Field(default=None, min_length=1)
    soft_delete: str | None = None
    start: Annotated[Place, BeforeValidator(parse_place)] = "now"
    unsafe_ids: bool = False
    unsafe_where: bool = False
    gap_alarm: GapAlarm = GapAlarm()
    on_bad_row: Literal["stop", "report"] = "stop"
    lateness: Annotated[Duration, Field(le=timedelta(hours=1))] | None = None

    @model_validator(mode="before")
    @classmethod
    def _keys_of_the_mode(cls, data: Any) -> Any:
        known = without_keys_of_others(data, _OF_CHANGES, _CHANGES_ALONE_HAVE)
        if isinstance(known, dict) and known.get("mode") == "updated_at":
            return {"column": "updated_at", **known}
        return known

    @field_validator("mode", mode="before")
    @classmethod
    def _is_no_log(cls, value: Any) -> Any:
        if value == "log":
            raise ValueError(_LOG)
        return value

    @field_validator("column", "soft_delete")
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
    def _fits_the_mode(self) -> Self:
        for name, value in self:
            mode, why = _OF_ONE_MODE.get(name, (self.mode, ""))
            if mode != self.mode and value is not None:
                raise ValueError(f"{name} needs mode: {mode}{why}")
        try:
            check_place(self.start, self.mode)
        except ValueError as error:
            raise ValueError(f"start: {error}") from None
        return self

    @property
    def by_id(self) -> ByIdOptions:
        return ByIdOptions(unsafe_ids=self.unsafe_ids, witness=self.witness)

    @property
    def by_update(self) -> ByUpdateOptions:
        return ByUpdateOptions(time_zone=self.time_zone, lateness=self.lateness, soft_delete=self.soft_delete)

    @property
    def writes(self) -> str:
        return "INSERT" if self.mode == "id" else "INSERT OR UPDATE"

    @property
    def named_columns(self) -> Sequence[str]:
        soft_delete = () if self.soft_delete is None else (self.soft_delete,)
        return [self.column, *super().named_columns, *soft_delete]

    def rewind_places(self) -> Sequence[RewindPlace]:
        """The places that `place_of_rewind` knows in this mode."""
        since = (
            RewindPlace(
                kind="item", about="rows with a larger id are reported, also what was reported before", example="1200"
            )
            if self.mode == "id"
            else RewindPlace(kind="time", about="rows with a later time are reported, also what was reported before")
        )
        return (
            RewindPlace(kind="start", about="every row is reported, also what was reported before"),
            since,
            RewindPlace(kind="now", about="the rows that are there by now are passed over"),
        )

    def name_item(self, item: str) -> Explanation:
        value = as_json(item)
        if self.mode != "id":
            return replace(cannot_tell(item), name=[*value.values()] if isinstance(value, dict) else value)
        if isinstance(value, bool) or not isinstance(value, int) or not SMALLEST_ID <= value <= LARGEST_ID:
            return outside("it is no id: the watcher's rows have whole numbers")
        return replace(cannot_tell(item), in_ranges=True)
