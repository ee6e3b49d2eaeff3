"""The parameters that many routes share, checked so that the database can accept them.

Every function that FastAPI calls for a request is `async`, here and elsewhere, because FastAPI would call others in a thread.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from datetime import datetime
from typing import Annotated, Any, Final

from fastapi import Depends, HTTPException, Path, Query
from pydantic import AfterValidator, AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field
from starlette.convertors import Convertor, register_url_convertor

from store.database.paging import PageRequest
from store.database.schema import in_utc
from store.errors import InvalidValue, no_asset, no_event
from store.keys import LONGEST_PARTITION_KEY
from store.values import check_key, check_partition_key

BIGGEST: Final = 2**63 - 1
BIGGEST_SMALL: Final = 2**31 - 1
_MOST_ROWS: Final = 100
"""The largest page. A larger limit is not refused but reduced to this, as in Airflow."""


class _MapIndexConvertor(Convertor[str]):
    """Lets `{map_index:map_index}` match numbers only, so that `…/{task_id}/links` belongs to one route."""

    regex = "-?[0-9]+"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("map_index", _MapIndexConvertor())


class Body(BaseModel):
    """A request's JSON object. Unknown members are refused, as in Airflow, and so are values of another type."""

    model_config = ConfigDict(extra="forbid", strict=True)


def example(**members: Any) -> ConfigDict:
    """Return the model configuration with an example of a body for the OpenAPI document."""
    return ConfigDict(json_schema_extra={"examples": [members]})


def storable(text: str) -> str:
    """Return the text if a database can store it. Raises `ValueError`."""
    if "\0" in text:
        raise ValueError("contains a NUL character; remove it")
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        raise ValueError("contains a lone surrogate, which is not valid text; remove it")
    return text


def _iso_text(moment: Any) -> Any:
    """Refuse numbers, and texts of numbers, which pydantic would read as seconds since 1970."""
    if not isinstance(moment, datetime) and str(moment)[4:5] != "-":
        raise ValueError("is not an ISO 8601 timestamp; write it like 2026-01-31T12:00:00Z")
    return moment


def _partition_key(text: str) -> str:
    try:
        return check_partition_key(text)
    except InvalidValue as error:
        raise ValueError(str(error)) from None


async def _asset_id(asset_id: Annotated[int, Path()]) -> int:
    if not 0 <= asset_id <= BIGGEST:
        raise no_asset(asset_id)
    return asset_id


async def _event_id(event_id: Annotated[int, Path()]) -> int:
    if not 0 <= event_id <= BIGGEST:
        raise no_event(event_id)
    return event_id


async def _key(key: Annotated[str, Path()]) -> str:
    return check_key(key)


async def _key_in_query(key: Annotated[str, Query()]) -> str:
    return check_key(key)


async def _limit(limit: Annotated[int, Query(ge=0)] = 50) -> int:
    return min(limit, _MOST_ROWS)


Text = Annotated[str, AfterValidator(storable)]
Moment = Annotated[AwareDatetime, Field(strict=False), BeforeValidator(_iso_text), AfterValidator(in_utc)]
PartitionKey = Annotated[str, AfterValidator(_partition_key), Field(max_length=LONGEST_PARTITION_KEY)]
Pattern = Annotated[str | None, Query(max_length=1000)]
TraceId = Annotated[str | None, Query(pattern="^[0-9a-f]{32}$")]
AssetId = Annotated[int, Depends(_asset_id)]
EventId = Annotated[int, Depends(_event_id)]
Key = Annotated[str, Depends(_key)]
QueryKey = Annotated[str, Depends(_key_in_query)]
Limit = Annotated[int, Depends(_limit)]
Offset = Annotated[int, Query(ge=0, le=BIGGEST)]
Cursor = Annotated[
    str | None,
    Query(
        max_length=10_000,
        description="Give an empty text for the first page, then the `next_cursor` or `previous_cursor` of the last answer. With a cursor, `total_entries` is null.",
    ),
]
MapIndex = Annotated[int, Query(ge=-1, le=BIGGEST_SMALL)]
AnyMapIndex = Annotated[int, Field(ge=-1, le=BIGGEST_SMALL)]
"""A map index in a path or a body."""
Version = Annotated[int | None, Field(ge=0, le=BIGGEST)]
VersionNumber = Annotated[int, Field(ge=0, le=BIGGEST)]
Count = Annotated[int, Field(ge=0, le=BIGGEST)]
SmallNumber = Annotated[int, Field(ge=0, le=BIGGEST_SMALL)]


async def window(limit: Limit, offset: Offset = 0) -> PageRequest:
    """Return the requested page of a list with a fixed order."""
    return PageRequest(limit=limit, offset=offset)


def ordered_window(columns: Collection[str], default: str) -> Callable[..., Awaitable[PageRequest]]:
    """Return a dependency that reads a page of a list in the order of `order_by`. An unknown name is 400, as in Airflow."""

    async def choose(
        limit: Limit, order_by: Annotated[list[str] | None, Query()] = None, offset: Offset = 0
    ) -> PageRequest:
        return PageRequest(limit=limit, offset=offset, order_by=_checked_order(order_by, columns, default))

    return choose


def _checked_order(order_by: Sequence[str] | None, columns: Collection[str], default: str) -> Sequence[str]:
    chosen = order_by or [default]
    unknown = [name for name in chosen if name.removeprefix("-") not in columns]
    if unknown:
        known = ", ".join(sorted(columns))
        raise HTTPException(400, f"cannot order by {unknown[0]!r}; use one of these, with `-` for descending: {known}")
    return chosen


def window_of_body(
    offset: int, limit: int, order_by: str | None, columns: Collection[str], default: str
) -> PageRequest:
    """Return the page of a list that a body requests. An unknown order is 400, as in Airflow."""
    chosen = _checked_order(None if order_by is None else [order_by], columns, default)
    return PageRequest(limit=min(limit, _MOST_ROWS), offset=offset, order_by=chosen)


def cursor_window(columns: Collection[str], default: str) -> Callable[..., Awaitable[PageRequest]]:
    """Return a dependency like `ordered_window` that also reads a cursor, which replaces the offset."""

    async def choose(
        limit: Limit,
        order_by: Annotated[list[str] | None, Query()] = None,
        offset: Offset = 0,
        cursor: Cursor = None,
    ) -> PageRequest:
        order = _checked_order(order_by, columns, default)
        return PageRequest(limit=limit, offset=offset, order_by=order, cursor=cursor)

    return choose


UnorderedWindow = Annotated[PageRequest, Depends(window)]
