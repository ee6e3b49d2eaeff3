"""The base class and the types that all answers share."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Annotated, Any, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict


class Shape(BaseModel):
    """An answer, or a part of one."""

    model_config = ConfigDict(frozen=True, from_attributes=True)

    @classmethod
    def of(cls, row: object, **more: Any) -> Self:
        """Make the shape from the row's fields of the same names, and from `more` for fields that the row names otherwise."""
        return cls.model_validate({**vars(row), **more})


def parsed(value: Any) -> Any:
    """Parse JSON text, which is how rows hold JSON. Return any other value unchanged."""
    return json.loads(value) if isinstance(value, str) else value


JsonObject = Annotated[dict[str, Any], BeforeValidator(parsed)]
JsonValue = Annotated[Any, BeforeValidator(parsed)]


def duration(start: datetime | None, end: datetime | None) -> float | None:
    """Return the seconds between start and end, or None if one of them is missing."""
    return None if start is None or end is None else (end - start).total_seconds()
