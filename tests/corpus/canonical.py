"""One text for each value, whoever holds it: Arrow, a Python program, or the text of PostgreSQL. Knows no reader of ours."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeAlias

import pyarrow as pa

Canonical: TypeAlias = Any
"""A text, None, or a list of them: values of arrays, `[key, value]` of maps, `[name, value]` of structs."""
_PER_MICROSECOND = {"ns": Fraction(1, 1000), "us": Fraction(1), "ms": Fraction(1000), "s": Fraction(1_000_000)}
_DAY = 86_400_000_000


def rows_of(table: pa.Table | pa.RecordBatch) -> list[tuple[Canonical, ...]]:
    """The rows, each value in its canonical form."""
    columns = [[canonical(value) for value in column] for column in table.columns]
    return list(zip(*columns, strict=True)) if columns else [()] * table.num_rows


def canonical(value: pa.Scalar) -> Canonical:
    """The canonical form of an Arrow value."""
    kind = value.type
    if not value.is_valid:
        return None
    if pa.types.is_dictionary(kind):
        return canonical(value.value if isinstance(value.value, pa.Scalar) else value.dictionary[value.index.as_py()])
    if pa.types.is_nested(kind):
        return _nested(value)
    for is_kind, text in _TEXTS.items():
        if getattr(pa.types, is_kind)(kind):
            return text(value)
    return str(value.as_py())


def _nested(value: pa.Scalar) -> list[Canonical]:
    kind = value.type
    if pa.types.is_struct(kind):
        return [[kind.field(at).name, canonical(value[at])] for at in range(kind.num_fields)]
    items = value.values
    if pa.types.is_map(kind):
        return [[canonical(item[0]), canonical(item[1])] for item in items]
    return [canonical(item) for item in items]


def _timestamp(value: pa.Scalar) -> str:
    micros = value.value * _PER_MICROSECOND[value.type.unit]
    return moment_text(micros, utc=value.type.tz is not None)


_TEXTS = {
    "is_boolean": lambda value: str(value.as_py()).lower(),
    "is_floating": lambda value: float_text(value.as_py()),
    "is_decimal": lambda value: decimal_text(value.as_py()),
    "is_date32": lambda value: day_text(value.value),
    "is_date64": lambda value: day_text(value.value // 86_400_000),
    "is_timestamp": _timestamp,
    "is_binary": lambda value: binary_text(value.as_py()),
    "is_binary_view": lambda value: binary_text(value.as_py()),
    "is_large_binary": lambda value: binary_text(value.as_py()),
    "is_fixed_size_binary": lambda value: binary_text(value.as_py()),
}


def float_text(value: float) -> str:
    """The shortest decimal text of a double, and `NaN`, `Infinity`, `-Infinity`."""
    return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}.get(repr(value), repr(value))


def decimal_text(value: Decimal) -> str:
    """All digits, as many behind the point as the type has; nothing has a negative zero."""
    return format(abs(value) if value == 0 else value, "f")


def binary_text(value: bytes) -> str:
    return "0x" + value.hex()


def day_text(days: int) -> str:
    """The ISO text of a day since 1970 in the proleptic Gregorian calendar, of any year (astronomical, so 0 is 1 BC)."""
    era, of_era = divmod(days + 719_468, 146_097)
    year_of_era = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    month_from_march = (5 * of_year + 2) // 153
    day = of_year - (153 * month_from_march + 2) // 5 + 1
    month = month_from_march + (3 if month_from_march < 10 else -9)
    year = year_of_era + 400 * era + (month <= 2)
    return f"{'-' if year < 0 else ''}{abs(year):04}-{month:02}-{day:02}"


def days_of(year: int, month: int, day: int) -> int:
    """The days since 1970 of a day in the proleptic Gregorian calendar."""
    year -= month <= 2
    era, year_of_era = divmod(year, 400)
    of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return era * 146_097 + year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + of_year - 719_468


def length_of_month(year: int, month: int) -> int:
    following = (year, month + 1) if month < 12 else (year + 1, 1)
    return days_of(*following, 1) - days_of(year, month, 1)


def moment_text(micros: int | Fraction, *, utc: bool) -> str:
    """The ISO text of microseconds since 1970; `Z` behind a moment, nothing behind a local time."""
    days, rest = divmod(Fraction(micros), _DAY)
    seconds, fraction = divmod(rest, 1_000_000)
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    digits = f"{int(fraction * 1000):09}".rstrip("0")
    return f"{day_text(days)}T{clock}{'.' + digits if digits else ''}{'Z' if utc else ''}"


def nearest_float(number: Fraction, *, single: bool) -> float | None:
    """The nearest double or float of an exact number, ties to even. None: the number is beyond the largest."""
    most = (2 - Fraction(1, 2**23)) * 2**127 if single else (2 - Fraction(1, 2**52)) * 2**1023
    half = Fraction(2) ** (103 if single else 970)
    if abs(number) >= most + half:
        return None
    if not single:
        return number.numerator / number.denominator  # Python rounds this division correctly
    double = number.numerator / number.denominator
    (single_bits,) = struct.unpack("<I", struct.pack("<f", max(-float(most), min(float(most), double))))
    near = [bits for bits in (single_bits - 1, single_bits, single_bits + 1) if 0 <= bits < 2**32]
    candidates = [(bits, *struct.unpack("<f", struct.pack("<I", bits))) for bits in near]
    finite = [(bits, value) for bits, value in candidates if abs(value) <= float(most) and value == value]  # noqa: PLR0124 - NaN
    return float(min(finite, key=lambda pair: (abs(Fraction(pair[1]) - number), pair[0] & 1))[1])


def shown(row: Any) -> str:
    """A row for a message."""
    return json.dumps(row, ensure_ascii=True)


def differing(expected: Mapping[Any, Any], actual: Mapping[Any, Any]) -> list[str]:
    """What is missing, more, or other, one sentence each."""
    return [
        f"{key}: expected {shown(expected.get(key))}, read {shown(actual.get(key))}"
        for key in [*expected, *(key for key in actual if key not in expected)]
        if expected.get(key) != actual.get(key) or (key in expected) != (key in actual)
    ]
