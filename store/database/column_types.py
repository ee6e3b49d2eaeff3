"""The types of columns and the SQL functions of time that SQLite and PostgreSQL spell differently."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import DateTime, Dialect, Float, Integer
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import TypeDecorator


def in_utc(moment: datetime) -> datetime:
    """Return an aware time in UTC. Raises `ValueError` if its year in UTC is not from 1 to 9999."""
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise ValueError("lies outside the calendar; give a time of the years 1 to 9999 in UTC") from None


def moment_of(stored: str | datetime) -> datetime:
    """Return the time that a driver returns of a `UtcDateTime` which nothing has converted: SQLite's is naive text."""
    if isinstance(stored, str):
        return datetime.fromisoformat(stored).replace(tzinfo=UTC)
    return stored.astimezone(UTC)


class UtcDateTime(TypeDecorator[datetime]):
    """An aware UTC datetime in Python; SQLite stores it as naive text that sorts."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        if value.utcoffset() is None:
            raise ValueError("a time needs a time zone")
        utc = in_utc(value)
        return utc.replace(tzinfo=None) if dialect.name == "sqlite" else utc

    def process_result_value(self, value: datetime | None, _dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class database_now(FunctionElement[datetime]):  # noqa: N801  reads like the SQL function it is
    """The database's clock at this statement; leases and ages never use a process's clock."""

    type = UtcDateTime()
    inherit_cache = True


@compiles(database_now, "postgresql")
def _postgresql_now(_element: Any, _compiler: Any, **_options: Any) -> str:
    return "clock_timestamp()"


@compiles(database_now, "sqlite")
def _sqlite_now(_element: Any, _compiler: Any, **_options: Any) -> str:
    return "(strftime('%Y-%m-%d %H:%M:%f', 'now') || '000')"


class database_time_in(FunctionElement[datetime]):  # noqa: N801  reads like the SQL function it is
    """The time that many seconds (a float) after `database_now`."""

    type = UtcDateTime()
    inherit_cache = True


@compiles(database_time_in, "postgresql")
def _postgresql_time_in(element: Any, compiler: Any, **options: Any) -> str:
    return f"(clock_timestamp() + make_interval(secs => {compiler.process(element.clauses, **options)}))"


@compiles(database_time_in, "sqlite")
def _sqlite_time_in(element: Any, compiler: Any, **options: Any) -> str:
    seconds = compiler.process(element.clauses, **options)
    return f"(strftime('%Y-%m-%d %H:%M:%f', 'now', {seconds} || ' seconds') || '000')"


class number_in(FunctionElement[int]):  # noqa: N801  reads like the SQL function it is
    """The whole number that a JSON object's text has under a name; null if it has none."""

    type = Integer()
    inherit_cache = True


@compiles(number_in, "postgresql")
def _postgresql_number(element: Any, compiler: Any, **options: Any) -> str:
    text, name = (compiler.process(part, **options) for part in element.clauses)
    return f"({text}::json ->> {name})::integer"


@compiles(number_in, "sqlite")
def _sqlite_number(element: Any, compiler: Any, **options: Any) -> str:
    text, name = (compiler.process(part, **options) for part in element.clauses)
    return f"json_extract({text}, '$.' || {name})"


class seconds_between(FunctionElement[float]):  # noqa: N801  reads like the SQL function it is
    """The seconds from one time to a later one; null if either is null."""

    type = Float()
    inherit_cache = True


@compiles(seconds_between, "postgresql")
def _postgresql_seconds(element: Any, compiler: Any, **options: Any) -> str:
    start, end = (compiler.process(time, **options) for time in element.clauses)
    return f"EXTRACT(EPOCH FROM {end} - {start})::double precision"


@compiles(seconds_between, "sqlite")
def _sqlite_seconds(element: Any, compiler: Any, **options: Any) -> str:
    start, end = (compiler.process(time, **options) for time in element.clauses)
    return f"round((julianday({end}) - julianday({start})) * 86400.0, 3)"  # it counts milliseconds
