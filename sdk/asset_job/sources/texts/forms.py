"""The forms in which a text is a value of a type, and the values. A text in another form is no value, whatever a parser would make of it.

Regular expressions decide, then Arrow casts. Numbers with many digits or a large exponent are computed exactly by Python.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal, localcontext
from typing import Final, TypeAlias
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc

from asset_job.sources.options import ReadOptions
from asset_job.sources.texts.patterns import in_iso

Values: TypeAlias = "tuple[pa.Array, pa.Array]"
"""The values, null where a text is none, and whether each text is null or a value."""

_WHOLE: Final = r"^[+-]?\d+$"
_NUMBER: Final = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_PLAIN_DECIMAL: Final = r"^[+-]?\d{1,18}(?:\.\d{1,18})?$"
"""Decimals that Arrow casts without a fault."""
_TRUE_OR_FALSE: Final = r"^(?i:true|false|t|f)$"
DATE: Final = r"\d{4}-\d\d-\d\d"
CLOCK: Final = r"\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?"
_MIDNIGHT: Final = r"(?:[T ]00:00(?::00(?:\.0+)?)?)?"
_OFFSET: Final = r"Z|[+-](?:0\d|1[0-7])(?::?[0-5]\d)?|[+-]18(?::?00)?"
_MOMENT: Final = rf"^(?P<day>{DATE})[T ](?P<clock>{CLOCK})(?P<offset>{_OFFSET})?$"
_ZONED: Final = rf"^{DATE}[T ]{CLOCK}(?:{_OFFSET})$"
_LOCAL: Final = rf"^{DATE}[T ]{CLOCK}$"
"""Time stamps, all with an offset or all without, that Arrow casts as they are."""
_MOST_DIGITS: Final = 400
"""The most digits before or behind the point of a number that can be a value of any type."""


def converted(texts: pa.Array, kind: pa.DataType, options: ReadOptions) -> Values:
    """The values of texts. Spaces around are taken off, but of texts. A null is null."""
    if pa.types.is_string(kind):
        return texts, pc.or_(pc.is_valid(texts), True)
    if pa.types.is_binary(kind):
        return texts.cast(kind), pc.or_(pc.is_valid(texts), True)
    trimmed = pc.ascii_trim(texts, " ")
    values = _of_kind(trimmed, kind, options)
    return values, pc.or_(pc.is_null(texts), pc.is_valid(values))


def _of_kind(texts: pa.Array, kind: pa.DataType, options: ReadOptions) -> pa.Array:
    """The values of trimmed texts, null where a text is none."""
    if pa.types.is_integer(kind):
        whole = pc.replace_substring_regex(_matching(texts, _WHOLE), r"^\+", "")
        return _cast(whole, lambda some: some.cast(kind))
    if pa.types.is_decimal(kind):
        return _decimals(texts, kind)
    if pa.types.is_floating(kind):
        return _floats(texts, kind)
    return _of_other_kind(texts, kind, options)


def _of_other_kind(texts: pa.Array, kind: pa.DataType, options: ReadOptions) -> pa.Array:
    """The values of trimmed texts that are no numbers."""
    if pa.types.is_boolean(kind):
        return pc.equal(pc.utf8_slice_codeunits(pc.ascii_lower(_matching(texts, _TRUE_OR_FALSE)), 0, 1), "t")
    if pa.types.is_date(kind):
        days = _matching(in_iso(texts, options.date_format), f"^{DATE}{_MIDNIGHT}$")
        return _cast(pc.utf8_slice_codeunits(days, 0, 10), lambda some: some.cast(kind))
    if kind.tz is None:
        return _moments(in_iso(texts, options.timestamp_ntz_format), kind, None)
    return _moments(in_iso(texts, options.timestamp_format), kind, options.time_zone)


def _matching(texts: pa.Array, form: str) -> pa.Array:
    """The texts of a form, null where a text has another."""
    return pc.if_else(pc.match_substring_regex(texts, form), texts, None)


def _cast(texts: pa.Array, cast: Callable[[pa.Array], pa.Array]) -> pa.Array:
    """The values that `cast` gives, null for each text for which it raises. A part with such a text is halved."""
    try:
        return cast(texts)
    except pa.ArrowInvalid:
        if len(texts) == 1:
            return cast(pa.nulls(1, texts.type))
    middle = len(texts) // 2
    return pa.concat_arrays([_cast(texts.slice(0, middle), cast), _cast(texts.slice(middle), cast)])


def _decimals(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Decimals that have nothing but 0 beyond the scale, and no more digits than the precision."""
    numbers = _matching(texts, f"^{_NUMBER}$")
    plain = pc.match_substring_regex(numbers, _PLAIN_DECIMAL)
    if pc.all(plain).as_py() is not False:
        return _cast(numbers, lambda some: some.cast(kind))
    plain_values = _cast(pc.if_else(plain, numbers, None), lambda some: some.cast(kind))
    others = pa.array([_exact(text, kind) for text in pc.if_else(plain, None, numbers).to_pylist()], kind)
    return pc.coalesce(plain_values, others)


def _exact(text: str | None, kind: pa.DataType) -> Decimal | None:
    """A decimal by Python's arithmetic; None if it does not fit."""
    mantissa, _, exponent = (text or "").lower().partition("e")
    if text is None or len(exponent) > len(str(_MOST_DIGITS)) + 1 or len(mantissa) > 2 * _MOST_DIGITS:
        return Decimal(0) if text is not None and not mantissa.strip("+-0.") else None
    with localcontext(prec=4 * _MOST_DIGITS):
        number = Decimal(text)
        scaled = number.scaleb(kind.scale)
        fits = scaled == scaled.to_integral_value() and abs(scaled) < Decimal(10) ** kind.precision
        return number.quantize(Decimal(1).scaleb(-kind.scale)) if fits else None


def _floats(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Floating numbers. A number that only infinity or, unless it is 0, only 0 would stand for is none."""
    named = pc.match_substring_regex(texts, r"^(?:NaN|[+-]?Infinity)$")
    numbers = pc.if_else(pc.or_(named, pc.match_substring_regex(texts, f"^{_NUMBER}$")), texts, None)
    values = numbers.cast(kind)
    nothing = pc.and_(pc.equal(values, 0), pc.match_substring_regex(texts, r"^[^eE]*[1-9]"))
    return pc.if_else(pc.or_(pc.and_(pc.is_inf(values), pc.invert(named)), nothing), None, values)


def _moments(texts: pa.Array, kind: pa.DataType, zone: str | None) -> pa.Array:
    """Time stamps. `zone` is that of texts without one; None: a text may have none."""
    if zone is not None and pc.all(pc.match_substring_regex(texts, _ZONED)).as_py():
        return _cast(texts, lambda some: some.cast(kind))
    if pc.all(pc.match_substring_regex(texts, _LOCAL)).as_py():
        return _local_moments(texts, kind, zone)
    parts = pc.extract_regex(pc.replace_substring_regex(texts, r"(\.\d{6})0+", r"\1"), _MOMENT)
    offsets = pc.if_else(pc.is_valid(parts), pc.struct_field(parts, "offset"), None)
    local = pc.binary_join_element_wise(pc.struct_field(parts, "day"), pc.struct_field(parts, "clock"), "T")
    local = pc.if_else(pc.equal(offsets, ""), local, None)
    utc = _local_moments(local, kind, zone)
    if zone is None or pc.all(pc.equal(offsets, "")).as_py() is not False:
        return utc
    zoned = pc.binary_join_element_wise(pc.struct_field(parts, "day"), pc.struct_field(parts, "clock"), "T")
    zoned = pc.binary_join_element_wise(zoned, offsets, "")
    zoned = pc.if_else(pc.not_equal(offsets, ""), zoned, None)
    return pc.coalesce(utc, _cast(zoned, lambda some: some.cast(kind)))


def _local_moments(texts: pa.Array, kind: pa.DataType, zone: str | None) -> pa.Array:
    """The values of time stamps without an offset."""
    local = _cast(texts, lambda some: some.cast(pa.timestamp("us")))
    if zone is None or zone == "UTC":
        return local.cast(kind)
    return in_zone(local, zone, kind)


def in_zone(local: pa.Array, zone: str, kind: pa.DataType, *, later: bool = False) -> pa.Array:
    """The moments of local times, null for one that was skipped or is not of the years 1 to 9999.

    A time that comes twice is the earlier moment, or the later one if that is asked for.
    """
    of_python = pc.and_(pc.greater_equal(local, _FIRST_BY_PYTHON), pc.less(local, _BEHIND_PYTHON))
    local = pc.if_else(of_python, local, None)
    known = pc.and_(pc.greater_equal(local, _FIRST_BY_ARROW), pc.less(local, _LAST_BY_ARROW))
    which = "latest" if later else "earliest"
    moments = _cast(
        pc.if_else(known, local, None), lambda some: pc.assume_timezone(some, zone, ambiguous=which).cast(kind)
    )
    if pc.all(known).as_py() is not False:
        return moments
    unknown = pc.if_else(known, None, local).to_pylist()
    others = [_moment_in(each and each.replace(fold=later), ZoneInfo(zone)) for each in unknown]
    return pc.coalesce(moments, pa.array(others, pa.int64()).cast(kind))


def _moment_in(local: datetime | None, zone: ZoneInfo) -> int | None:
    """The microseconds of a local time; None if there was no such time."""
    if local is None:
        return None
    offset = local.replace(tzinfo=zone).utcoffset() or timedelta()
    moment = (local - _EPOCH - offset) // timedelta(microseconds=1)
    if not _YEARS[0] <= local <= _YEARS[1]:
        return moment
    back = (local - offset).replace(tzinfo=UTC).astimezone(zone).replace(tzinfo=None)
    return moment if back == local else None


_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - local times
_YEARS: Final = (datetime(1, 1, 3), datetime(9999, 12, 29))  # noqa: DTZ001 - of which Python can compute every zone
_FIRST_BY_PYTHON: Final = pa.scalar(datetime(1, 1, 1), pa.timestamp("us"))  # noqa: DTZ001
_BEHIND_PYTHON: Final = pa.scalar(253_402_300_800_000_000, pa.int64()).cast(pa.timestamp("us"))
"""The year 10000."""
_FIRST_BY_ARROW: Final = pa.scalar(datetime(1902, 1, 1), pa.timestamp("us"))  # noqa: DTZ001
_LAST_BY_ARROW: Final = pa.scalar(datetime(2037, 1, 1), pa.timestamp("us"))  # noqa: DTZ001
"""The local times of which Arrow knows the daylight saving."""
_SHORTENED: Final = 100


def reason(column: str, kind: pa.DataType, text: str | None, options: ReadOptions) -> str:
    """Why a text, or None, is no value of a column's type, with the format of dates or times that `options` give."""
    if text is None:
        return f"the column {column} is NOT NULL, and has no value"
    shown = text if len(text) <= _SHORTENED else text[:_SHORTENED] + "…"
    name, noun = _described(kind)
    given = _given_format(kind, options)
    if given is not None:
        noun = f"{noun.removesuffix(_AS_ISO)} as {given}"
    return f"the column {column} has the type {name}, and {shown!r} is no {noun}"


def _given_format(kind: pa.DataType, options: ReadOptions) -> str | None:
    """The pattern that the options give for values of a type, with the option's name; None if they give none."""
    formats = {
        pa.date32(): ("dateFormat", options.date_format),
        pa.timestamp("us"): ("timestampNTZFormat", options.timestamp_ntz_format),
        pa.timestamp("us", "UTC"): ("timestampFormat", options.timestamp_format),
    }
    name, pattern = formats.get(kind, ("", None))
    return None if pattern is None else f"{pattern} ({name})"


def _described(kind: pa.DataType) -> tuple[str, str]:
    """Spark's name of a type, and what its values are."""
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})", "number of so many digits"
    return _NAMES.get(kind, (str(kind), "value of it"))


_AS_ISO: Final = " as YYYY-MM-DD"
_NAMES: Final = {
    pa.int8(): ("tinyint", "whole number from -128 to 127"),
    pa.int16(): ("smallint", "whole number of 16 bits"),
    pa.int32(): ("int", "whole number of 32 bits"),
    pa.int64(): ("bigint", "whole number"),
    pa.float32(): ("float", "number that it can hold"),
    pa.float64(): ("double", "number that it can hold"),
    pa.bool_(): ("boolean", "true or false"),
    pa.date32(): ("date", f"date{_AS_ISO}"),
    pa.timestamp("us"): ("timestamp_ntz", "date and time without a zone"),
    pa.timestamp("us", "UTC"): ("timestamp", "date and time"),
}
