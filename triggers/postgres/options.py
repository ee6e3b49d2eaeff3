"""Options of `postgres.new_rows`; config.md lists the YAML keys."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Annotated, Any, Final, Literal, Self, TypeAlias

from pydantic import BeforeValidator, Field, field_validator, model_validator

from triggers.base import BaseOptions
from triggers.options import BatchOptions, Duration, parse_time
from triggers.postgres.sql import Table, quoted

Place: TypeAlias = Literal["now", "all"] | int | datetime
"""Where to begin; a time is in UTC."""

SMALLEST_ID: Final = -(2**63)
_LARGEST_ID: Final = 2**63 - 1


def parse_place(value: Any) -> Any:
    """A text as the place it names, a time in UTC, all else as it is. Raises ValueError."""
    if isinstance(value, str) and re.fullmatch("-?[0-9]{1,30}", value):
        return int(value)
    if not isinstance(value, str | datetime) or value in ("now", "all"):
        return value
    try:
        return parse_time(value)
    except ValueError:
        raise ValueError("write now, all, an id, or an ISO timestamp like 2026-11-20T09:00:00Z") from None


def check_place(place: Place, mode: str) -> None:
    """Raises ValueError for a place that a table watched in this mode does not have."""
    if mode == "id" and isinstance(place, datetime):
        raise ValueError("a timestamp needs mode: updated_at; with mode: id write now, all or an id")
    if mode == "updated_at" and isinstance(place, int):
        raise ValueError("an id needs mode: id; with mode: updated_at write now, all or an ISO timestamp")
    if isinstance(place, int) and not SMALLEST_ID <= place <= _LARGEST_ID:
        raise ValueError("no id is that large: ids have 64 bits")


class RowBatch(BatchOptions):
    max_rows: int = Field(default=1000, ge=1, le=100_000)
    """The most rows one event stands for, and one statement reads above the highest id."""


class GapAlarm(BaseOptions):
    """Warn when so many gaps are open, or one writer has kept gaps open for so long."""

    count: int = Field(default=1000, ge=1)
    age: Duration = timedelta(minutes=10)


class NewRowsOptions(BaseOptions):
    table: str
    mode: Literal["id", "updated_at"] = "id"
    column: str = "id"
    columns: tuple[str, ...] = ()
    where: str | None = Field(default=None, min_length=1)
    interval: Duration = Field(default=timedelta(seconds=1), gt=timedelta(0))
    start: Annotated[Place, BeforeValidator(parse_place)] = "now"
    batch: RowBatch = RowBatch()
    listen: bool = False
    unsafe_ids: bool = False
    gap_alarm: GapAlarm = GapAlarm()
    on_bad_row: Literal["stop", "report"] = "stop"
    lock_timeout: Duration = Field(default=timedelta(seconds=1), gt=timedelta(0), le=timedelta(seconds=30))

    @model_validator(mode="before")
    @classmethod
    def _column_of_the_mode(cls, data: Any) -> Any:
        if isinstance(data, dict) and data.get("mode") == "updated_at":
            return {"column": "updated_at", **data}
        return data

    @field_validator("table")
    @classmethod
    def _names_a_table(cls, value: str) -> str:
        return str(Table.parse(value))

    @field_validator("column", "columns")
    @classmethod
    def _names_columns(cls, value: str | tuple[str, ...]) -> str | tuple[str, ...]:
        for name in (value,) if isinstance(value, str) else value:
            quoted(name)
        return value

    @model_validator(mode="after")
    def _start_fits_the_mode(self) -> Self:
        try:
            check_place(self.start, self.mode)
        except ValueError as error:
            raise ValueError(f"start: {error}") from None
        return self

    @property
    def source(self) -> Table:
        return Table.parse(self.table)
