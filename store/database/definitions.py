"""The type of columns that hold a job's definition."""

from __future__ import annotations

from sqlalchemy import Dialect, Text
from sqlalchemy.types import TypeDecorator

from store.keys import JobDefinition


class Definition(TypeDecorator[JobDefinition]):
    """A `JobDefinition` in Python, stored as JSON text."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: JobDefinition | None, _dialect: Dialect) -> str | None:
        return None if value is None else value.to_json()

    def process_result_value(self, value: str | None, _dialect: Dialect) -> JobDefinition | None:
        return None if value is None else JobDefinition.from_json(value)
