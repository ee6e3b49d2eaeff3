"""Options of `postgres.new_rows`; config.md lists the YAML keys."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, field_validator, model_validator

from triggers.base import BaseOptions
from triggers.options import Duration
from triggers.postgres.sql import Table, quoted


def _parse_start(value: Any) -> Any:
    if not isinstance(value, str) or value in ("now", "all"):
        return value
    if value.removeprefix("-").isdecimal():
        return int(value)
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        raise ValueError("write now, all, an id, or an ISO timestamp like 2026-11-20T09:00:00Z") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


class RowBatch(BaseOptions):
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
    start: Annotated[Literal["now", "all"] | int | datetime, BeforeValidator(_parse_start)] = "now"
    batch: RowBatch = RowBatch()
    listen: bool = False
    unsafe_ids: bool = False
    gap_alarm: GapAlarm = GapAlarm()

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

    @field_validator("listen")
    @classmethod
    def _is_not_built(cls, value: bool) -> bool:
        if value:
            raise ValueError("listen: true is not available yet; remove it and choose a short interval")
        return value

    @model_validator(mode="after")
    def _start_fits_the_mode(self) -> Self:
        if self.mode == "id" and isinstance(self.start, datetime):
            raise ValueError("start: a timestamp needs mode: updated_at; with mode: id write now, all or an id")
        if self.mode == "updated_at" and isinstance(self.start, int):
            raise ValueError("start: an id needs mode: id; with mode: updated_at write now, all or an ISO timestamp")
        return self

    @property
    def source(self) -> Table:
        return Table.parse(self.table)
