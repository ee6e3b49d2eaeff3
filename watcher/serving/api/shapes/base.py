"""What all answers have in common."""

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
        """From the fields of a row that have this shape's names, and what the row calls otherwise."""
        return cls.model_validate({**vars(row), **more})


def parsed(value: Any) -> Any:
    """Rows hold JSON as text."""
    return json.loads(value) if isinstance(value, str) else value


JsonObject = Annotated[dict[str, Any], BeforeValidator(parsed)]
JsonValue = Annotated[Any, BeforeValidator(parsed)]


def duration(start: datetime | None, end: datetime | None) -> float | None:
    """Seconds of what has begun and ended."""
    return None if start is None or end is None else (end - start).total_seconds()
