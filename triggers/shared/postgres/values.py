"""Values as PostgreSQL writes them in JSON, digit for digit.

JSON readers parse numbers as floats and would round a numeric, so every numeric becomes text. At the top of a row PostgreSQL
does that itself (`ValueType.in_json`). Inside composites it is done here, by the types that the catalog lists. A number in a
json or jsonb column stays a number if a float holds it exactly, and otherwise becomes text too. An array whose subscripts do
not begin at 1 becomes text, because a list in JSON has none.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

MOST_DIGITS: Final = 308
"""The number of digits from which on an integer becomes text."""
SURELY_EXACT: Final = 16
"""How many characters of a number with a point and without an exponent every 64-bit float reproduces."""
SMALLEST_ID: Final = -(2**63)
LARGEST_ID: Final = 2**63 - 1
"""The limits of a bigint."""
NUMERIC: Final = 1700
"""PostgreSQL's oid of the type."""


@dataclass(frozen=True, kw_only=True)
class ValueType:
    """How values of a type become JSON. A domain is represented by its base type; `fields` are those of a composite, else empty."""

    is_numeric: bool = False
    element: ValueType | None = None
    fields: Mapping[str, ValueType] = field(default_factory=dict)

    def in_json(self, value: str) -> str:
        """Return an expression that becomes JSON as `value`, an expression of this type, should."""
        if self.element is None:
            return f"{value}::text" if self.is_numeric else value
        items = f"{value}::text[]" if self.element.is_numeric else value
        return f"CASE WHEN array_dims({value}) ~ '[[](?!1:)' THEN to_json({value}::text) ELSE to_json({items}) END"

    @property
    def hides_numeric(self) -> bool:
        """Whether there is a numeric inside that no cast of `in_json` reaches."""
        if self.is_cast:
            return False
        parts = [*self.fields.values(), *([] if self.element is None else [self.element])]
        return any(part.is_cast or part.hides_numeric for part in parts)

    @property
    def is_cast(self) -> bool:
        return self.is_numeric or (self.element is not None and self.element.is_numeric)


def type_of(oid: int, catalogue: Mapping[int, Mapping[str, Any]]) -> ValueType:
    """Return the type with this oid, from the rows of `catalog.TYPES` by oid."""
    row = catalogue[oid]
    if row["base"]:
        return type_of(row["base"], catalogue)
    return ValueType(
        is_numeric=oid == NUMERIC,
        element=type_of(row["element"], catalogue) if row["element"] else None,
        fields={name: type_of(part, catalogue) for name, part in json.loads(row["fields"] or "{}").items()},
    )


def parse_rows(texts: Sequence[str], types: Mapping[str, ValueType]) -> list[Any]:
    """Parse rows that are JSON objects of columns of these types."""
    if not any(type_.hides_numeric for type_ in types.values()):
        return parse_all(texts)
    rows = json.loads(f"[{','.join(texts)}]", parse_float=_Digits, parse_int=_Digits)
    return [{name: _exact(value, types.get(name)) for name, value in row.items()} for row in rows]


def parse_all(texts: Sequence[str]) -> list[Any]:
    """Parse JSON texts as PostgreSQL writes them; numbers that no float holds stay text."""
    values: list[Any] = json.loads(f"[{','.join(texts)}]", parse_float=_float_or_text, parse_int=_int_or_text)
    return values


class _Digits(str):
    """A number as PostgreSQL wrote it."""

    __slots__ = ()

    def number(self) -> int | float | str:
        return _int_or_text(self) if self.lstrip("-").isdigit() else _float_or_text(self)


def _exact(value: Any, type_: ValueType | None) -> Any:
    match value:
        case _Digits():
            return str(value) if type_ is not None and type_.is_numeric else value.number()
        case list():
            element = None if type_ is None else type_.element
            # All dimensions of an array have the same type.
            return [_exact(item, type_ if isinstance(item, list) and _is_flat(element) else element) for item in value]
        case dict():
            fields = {} if type_ is None else type_.fields
            return {name: _exact(item, fields.get(name)) for name, item in value.items()}
    return value


def _is_flat(element: ValueType | None) -> bool:
    return element is None or element.element is None


def _int_or_text(text: str) -> int | float | str:
    if text == "-0":  # PostgreSQL's for the float -0.0
        return -0.0
    return int(text) if len(text) < MOST_DIGITS else str(text)


def _float_or_text(text: str) -> float | str:
    number = float(text)
    if len(text) <= SURELY_EXACT and "e" not in text and "E" not in text:
        return number
    return number if math.isfinite(number) and Decimal(text) == Decimal(repr(number)) else str(text)
