"""What may be stored, and the clock."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from typing import Any

from .errors import InvalidValue


def storable(key: str, value: Any) -> Any:
    """The value as JSON has it; dates and times become ISO text. Raises `InvalidValue`."""
    if value is None:
        raise InvalidValue(f"None cannot be stored as {key!r}: delete the key instead")
    try:
        return json.loads(json.dumps(value, allow_nan=False, default=_encode))
    except (TypeError, ValueError) as error:
        raise InvalidValue(f"The value of {key!r} is not JSON: {error}") from error


def _encode(value: object) -> str:
    if isinstance(value, (date, datetime)):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} cannot be stored")


def now() -> datetime:
    """The present moment, in UTC."""
    return datetime.now(UTC)
