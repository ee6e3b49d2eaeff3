"""Rules for what may be stored: keys, JSON values as texts, and expiry."""

from __future__ import annotations

import json
import math
import re
import unicodedata
from datetime import datetime
from typing import Any, Final

from store.errors import InvalidValue
from store.keys import LONGEST_PARTITION_KEY
from store.scopes import AssetScope, NeverExpire, Scope

MAX_KEY_LENGTH: Final = 512
MAX_NESTING: Final = 200
"""The most levels of lists and objects.

Every stored value must be readable, and readers' own limits begin at 255 (pydantic).
"""
WATERMARK_SUFFIX: Final = ".watermark"
_ENCODER: Final = json.JSONEncoder(allow_nan=False)
_STRING_OR_BRACKET: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]')


def check_key(key: str) -> str:
    """Return the key if it is valid. Raises `InvalidValue`.

    A key has 1 to 512 characters; slashes and unicode are allowed, control characters and lone surrogates are not.
    """
    if not 1 <= len(key) <= MAX_KEY_LENGTH:
        raise InvalidValue(f"a key has 1 to {MAX_KEY_LENGTH} characters, this one has {len(key)}; use another one")
    if any(unicodedata.category(character) in {"Cc", "Cs"} for character in key):
        raise InvalidValue("a key cannot contain control characters or lone surrogates; remove them")
    return key


def check_partition_key(key: str) -> str:
    """Return the partition key if an event or a run may have it. Raises `InvalidValue`."""
    if not key.strip() or len(key) > LONGEST_PARTITION_KEY:
        raise InvalidValue(
            f"a partition key has 1 to {LONGEST_PARTITION_KEY} characters and is not blank; give another one"
        )
    if "\0" in key or any(unicodedata.category(character) == "Cs" for character in key):
        raise InvalidValue("a partition key cannot contain NUL or lone surrogates; remove them")
    return key


def check_expiry(scope: Scope, expires_at: datetime | NeverExpire | None) -> None:
    """Raise `InvalidValue` for an expiry of an asset's entry, and for a time without a time zone."""
    if expires_at is not None and isinstance(scope, AssetScope):
        raise InvalidValue("an asset's entries are kept until they are deleted; omit the expiry")
    if isinstance(expires_at, datetime) and expires_at.utcoffset() is None:
        raise InvalidValue("an expiry needs a time zone; give it in UTC")


def to_json(value: Any) -> str:
    """Return a value's JSON text, ASCII-escaped and in the same key order.

    Raises `InvalidValue` for null, NaN and non-JSON.
    """
    if value is None:
        raise InvalidValue("null cannot be stored; delete the key instead")
    try:
        text = _ENCODER.encode(value)
    except (TypeError, ValueError) as error:
        raise InvalidValue(f"only JSON values can be stored: {error}; convert it, or omit it") from None
    except RecursionError:
        raise InvalidValue(_TOO_DEEP) from None
    _check_nesting(text)
    if "\\ud" in text:
        check_json(text)
    return text


def check_json(text: str) -> str:
    """Return the text if it is the JSON of a storable value. Raises `InvalidValue`.

    Numbers stay as they are written, of any size; only what every reader would take for Infinity is refused.
    """
    try:
        value = json.loads(text, parse_constant=_refuse_number, parse_float=_finite)
        # Escapes are decoded first, because an escaped pair of surrogates is the one character it stands for.
        (json.dumps(value, ensure_ascii=False) if "\\u" in text else text).encode()
    except UnicodeEncodeError:
        raise InvalidValue("the value contains a lone surrogate, which is not text; remove it") from None
    except RecursionError:
        raise InvalidValue(_TOO_DEEP) from None
    except ValueError as error:
        raise InvalidValue(f"the value is not a JSON text: {error}; send JSON") from None
    if value is None:
        raise InvalidValue("null cannot be stored; delete the key instead")
    _check_nesting(text)
    return text


_TOO_DEEP: Final = f"the value is nested deeper than {MAX_NESTING} levels; store a flatter one"


def _check_nesting(text: str) -> None:
    if text.count("[") + text.count("{") <= MAX_NESTING:
        return
    depth = 0
    for part in _STRING_OR_BRACKET.finditer(text):
        depth += (part[0] in "[{") - (part[0] in "]}")
        if depth > MAX_NESTING:
            raise InvalidValue(_TOO_DEEP)


def _finite(number: str) -> float:
    value = float(number)
    return value if math.isfinite(value) else _refuse_number(number)


def _refuse_number(number: str) -> float:
    raise InvalidValue(f"{number} is not a finite number; store a string, or omit the value")
