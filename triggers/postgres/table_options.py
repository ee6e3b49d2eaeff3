"""What every watcher of a PostgreSQL table may say: which table, what of it stands in events, and how it is polled."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import cached_property
from typing import Annotated, Any, Final, TypeAlias

from pydantic import AfterValidator, Field, field_validator

from triggers.event_assets import EventTarget
from triggers.options import BaseOptions, BatchOptions, Duration, Facts
from triggers.partition_keys import LONGEST, key_of_parts
from triggers.shared.postgres.sql import TableName, quoted

_COLUMN: Final = "column"
"""The member of `assets` that names the column. The others are assets."""


class RowBatch(BatchOptions):
    max_rows: int = Field(default=1000, ge=1, le=100_000)
    """The most rows that one event stands for, and that one statement reads above the highest id."""


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


class TableOptions(BaseOptions):
    """The options that all triggers of tables have."""

    table: str
    mode: str
    """The way in which the table is watched. It stands in events and in the identity of positions."""
    columns: tuple[str, ...] = ()
    partition: dict[Annotated[str, Field(min_length=1, max_length=250)], str] | None = Field(default=None, min_length=1)
    assets: AssetsByValue | None = None
    interval: Duration = Field(default=timedelta(seconds=1), gt=timedelta(0))
    batch: RowBatch = RowBatch()
    listen: bool = False
    lock_timeout: Duration = Field(default=timedelta(seconds=1), gt=timedelta(0), le=timedelta(seconds=30))

    @field_validator("table")
    @classmethod
    def _names_a_table(cls, value: str) -> str:
        return str(TableName.parse(value))

    @field_validator("columns")
    @classmethod
    def _names_columns(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for name in value:
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

    @property
    @abstractmethod
    def writes(self) -> str:
        """The statements that may bring something to report, as CREATE TRIGGER lists them."""

    @property
    def source(self) -> TableName:
        return TableName.parse(self.table)

    @property
    def named_columns(self) -> Sequence[str]:
        """All columns that the table has to have."""
        return [*self.columns, *self.dividing_columns]

    @property
    def dividing_columns(self) -> Sequence[str]:
        """The columns whose values decide which event a row is in: that of `assets` first, then those of the partition key."""
        of_asset = [] if self.assets is None else [str(self.assets[_COLUMN])]
        return of_asset if self.partition is None else [*of_asset, *self.partition.values()]

    @property
    def further_assets(self) -> Sequence[str]:
        return [] if self.assets is None else [name for name in self.assets if name != _COLUMN]

    def facts(self) -> Facts:
        parts = None if self.partition is None else tuple(self.partition)
        return replace(super().facts(), parts=parts)

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


KeysOfOthers: TypeAlias = Mapping[str, Sequence[Any] | None]
"""Keys of other triggers of tables, with the values that change nothing; None: no value does. Those may be written, as they always might."""


def without_keys_of_others(data: Any, others: KeysOfOthers, sentence: str) -> Any:
    """Return the options as written, without the keys of `others`. Raise ValueError, naming those that would change something."""
    if not isinstance(data, dict):
        return data
    refused = [name for name, harmless in others.items() if name in data and harmless and data[name] not in harmless]
    if refused:
        raise ValueError(sentence.format(", ".join(refused)))
    return {name: value for name, value in data.items() if name not in others}


def schema_of_others(others: KeysOfOthers) -> Callable[[dict[str, Any]], None]:
    """Return what adds the keys that `without_keys_of_others` takes out to a model's JSON Schema."""

    def add(schema: dict[str, Any]) -> None:
        for name, harmless in others.items():
            values = {} if harmless is None else {"enum": [*harmless]}
            schema["properties"][name] = {**values, "description": "Changes nothing here."}

    return add
