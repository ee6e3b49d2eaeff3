"""A text is a value in the forms of the contract only, and then exactly that value."""

from __future__ import annotations

import math
import random
import re
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

from asset_job.errors import AssetJobError
from asset_job.sources.options import ReadOptions
from asset_job.sources.texts.forms import converted, reason

PLAIN = ReadOptions()
BAD = object()
MOMENT, LOCAL = pa.timestamp("us", "UTC"), pa.timestamp("us")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def value(text: str | None, kind: pa.DataType, options: ReadOptions = PLAIN) -> Any:
    """The value of a text among others; `BAD` if it is none. Time stamps are microseconds."""
    values, fits = converted(pa.array([None, text, ""], pa.string()), kind, options)
    assert (len(values), len(fits), fits[0].as_py()) == (3, 3, True)
    if not fits[1].as_py():
        return BAD
    return values.cast(pa.int64())[1].as_py() if pa.types.is_timestamp(kind) else values[1].as_py()


def micros(text: str) -> int:
    moment = datetime.fromisoformat(text)
    return ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - EPOCH) // timedelta(microseconds=1)


@pytest.mark.parametrize(
    ("kind", "right", "wrong"),
    [
        (
            pa.int64(),
            {
                "007": 7,
                "+7": 7,
                "-0": 0,
                " 5 ": 5,
                "9223372036854775807": 2**63 - 1,
                "-9223372036854775808": -(2**63),
                "0" * 400 + "1": 1,
            },
            [
                "",
                " ",
                "1.0",
                "1e3",
                "0x1",
                "1_000",
                "1,000",
                "9223372036854775808",
                "٣",
                "\t5",
                "--1",
                "+",
                "1L",
                "NaN",
            ],
        ),
        (pa.int8(), {"127": 127, "-128": -128}, ["128", "-129"]),
        (
            pa.decimal128(10, 2),
            {
                "1.5": Decimal("1.50"),
                "1.500000": Decimal("1.50"),
                ".5": Decimal("0.50"),
                "5.": Decimal(5),
                "-0": Decimal(0),
                "+1": Decimal(1),
                "1e2": Decimal(100),
                "1.5E-1": Decimal("0.15"),
                "99999999.99": Decimal("99999999.99"),
                "0." + "0" * 300: Decimal(0),
                "0e-99999999": Decimal(0),
                "1" + "0" * 30 + "e-30": Decimal(1),
            },
            [
                "1.005",
                "100000000",
                "1e-99999999",
                "1e99999999",
                "1e8",
                "NaN",
                "Infinity",
                "1,5",
                "1d",
                ".",
                "e5",
                "1e",
                "0x10",
                "1" * 5000,
            ],
        ),
        (
            pa.decimal128(38, 0),
            {"9" * 38: Decimal("9" * 38), "-" + "9" * 38: Decimal("-" + "9" * 38)},
            ["9" * 39, "1" + "0" * 38],
        ),
        (pa.decimal128(38, 38), {"0." + "9" * 38: Decimal("0." + "9" * 38), "1e-38": Decimal("1e-38")}, ["1", "1e-39"]),
        (
            pa.float64(),
            {
                "1.5": 1.5,
                "-0": -0.0,
                "1e308": 1e308,
                "4.9e-324": 5e-324,
                "Infinity": math.inf,
                "-Infinity": -math.inf,
                "+Infinity": math.inf,
                "0.1": 0.1,
                "5.": 5.0,
                ".5": 0.5,
                "0e-999": 0.0,
                "9007199254740993": 9007199254740992.0,
            },
            ["1e400", "-1e400", "1e-400", "inf", "nan", "infinity", "1d", "0x1p3", "1,5", "1_0", "", "+-1"],
        ),
        (pa.float32(), {"1.5": 1.5, "-Infinity": -math.inf}, ["1e39", "1e-50"]),
        (
            pa.bool_(),
            {"true": True, "TRUE": True, "t": True, "False": False, "F": False},
            ["1", "0", "yes", "", "tr", "truee"],
        ),
        (
            pa.date32(),
            {
                "2024-02-29": date(2024, 2, 29),
                "0001-01-01": date(1, 1, 1),
                "9999-12-31": date(9999, 12, 31),
                "2024-01-01 00:00:00.000": date(2024, 1, 1),
                "2024-01-01T00:00": date(2024, 1, 1),
            },
            [
                "2023-02-29",
                "2024-1-1",
                "20240101",
                "2024-01-01T10:00",
                "10000-01-01",
                "2024-13-01",
                "now",
                "2024-01-01T00:00:00.001",
                "2024-01-01T00:00Z",
            ],
        ),
        (
            LOCAL,
            {
                "2024-01-01T10:30:00": micros("2024-01-01T10:30:00"),
                "2024-01-01 10:30": micros("2024-01-01T10:30:00"),
                "9999-12-31 23:59:59.999999": micros("9999-12-31T23:59:59.999999"),
                "0001-01-01 00:00:00": micros("0001-01-01T00:00:00"),
                "2024-01-01T10:30:00.123456000": micros("2024-01-01T10:30:00.123456"),
            },
            [
                "10:30",
                "2024-01-01",
                "2024-01-01T10",
                "2024-01-01T10:30:00Z",
                "2024-01-01T10:30:00+01:00",
                "2024-01-01T24:00:00",
                "2024-01-01T23:59:60",
                "2024-01-01T10:30:00.1234567",
                "2024-01-01T25:00",
                "2024-02-30T10:00",
                "2024-01-01 00:00:000",
                "2024-01-01 00:000",
                "2024-01-01T10:30:00.12345601",
                "1704105000",
            ],
        ),
        (
            MOMENT,
            {
                "2024-01-01T10:30:00": micros("2024-01-01T10:30:00"),
                "2024-01-01T10:30:00Z": micros("2024-01-01T10:30:00"),
                "2024-01-01T10:30:00.5+01:00": micros("2024-01-01T09:30:00.5"),
                "2024-01-01 10:30-0330": micros("2024-01-01T14:00:00"),
                "2024-01-01 10:30+05": micros("2024-01-01T05:30:00"),
                "2024-01-01T10:30:00.100000000Z": micros("2024-01-01T10:30:00.1"),
            },
            [
                "2024-01-01T10:30:00+25:00",
                "2024-01-01T10:30:00+01:99",
                "2024-01-01T10:30:00 Europe/Berlin",
                "2024-01-01T10:30:00CET",
                "10:30",
                "2024-01-01T10:30:00.0000001Z",
                "2024-01-01",
                "2024-01-01T10:30:00z",
            ],
        ),
    ],
    ids=str,
)
def test_a_text_is_that_value_or_none(kind: pa.DataType, right: dict[str, Any], wrong: list[str]) -> None:
    for text, expected in right.items():
        got = value(text, kind)
        assert got == expected, text
        assert math.copysign(1, got) == math.copysign(1, expected) if isinstance(got, float) else True, text
    for text in wrong:
        assert value(text, kind) is BAD, text
    texts = [*right, *wrong, None] * 3
    random.Random(1).shuffle(texts)
    _, fits = converted(pa.array(texts, pa.string()), kind, PLAIN)
    assert fits.to_pylist() == [text is None or text in right for text in texts], "also among others"


def test_nan_is_a_floating_number() -> None:
    assert math.isnan(value("NaN", pa.float64()))


def test_a_text_stays_as_it_is() -> None:
    assert value("  a ", pa.string()) == "  a "
    assert value("ü", pa.binary()) == "ü".encode()


def test_a_time_without_a_zone_is_in_the_zone_of_the_option() -> None:
    berlin = ReadOptions.of("csv", {"timeZone": "Europe/Berlin"})
    assert value("2024-07-01T10:00", MOMENT, berlin) == micros("2024-07-01T08:00")
    assert value("2024-07-01T10:00Z", MOMENT, berlin) == micros("2024-07-01T10:00")
    assert value("2024-03-31T02:30", MOMENT, berlin) is BAD, "that hour was skipped"
    assert value("2024-10-27T02:30", MOMENT, berlin) == micros("2024-10-27T00:30"), "the earlier of two"
    assert value("0001-01-01T00:00", MOMENT, berlin) == micros("0001-01-01T00:00") - (53 * 60 + 28) * 1_000_000
    assert value("9999-12-31T23:00", MOMENT, berlin) == micros("9999-12-31T22:00")
    assert value("0000-01-01T00:00", MOMENT, berlin) is BAD
    with pytest.raises(AssetJobError, match="timeZone"):
        ReadOptions.of("csv", {"timeZone": "Europe/Nowhere"})


@pytest.mark.parametrize(
    ("pattern", "right", "wrong"),
    [
        (
            "dd/MM/yyyy HH:mm:ss",
            {"31/12/2024 23:59:58": "2024-12-31T23:59:58"},
            ["2024-12-31T23:59:58", "1/12/2024 23:59:58", "31/13/2024 00:00:00"],
        ),
        (
            "M/d/yyyy h:mm a",
            {"7/4/2024 1:05 PM": "2024-07-04T13:05", "12/31/2024 12:00 am": "2024-12-31T00:00"},
            ["7/4/2024 13:05 PM", "7/4/2024 0:05 AM"],
        ),
        (
            "yyyy-MM-dd'T'HH:mm:ss.SSSXXX",
            {"2024-01-01T10:00:00.250+02:00": "2024-01-01T08:00:00.250"},
            ["2024-01-01T10:00:00+02:00"],
        ),
        ("dd.MM.yyyy", {"31.12.2024": "2024-12-31T00:00"}, ["2024-12-31", "31.12.2024 10:00"]),
        ("dd.MM.yyyy[ HH]", {"31.12.2024": "2024-12-31T00:00", "31.12.2024 07": "2024-12-31T07:00"}, ["31.12.2024 24"]),
        ("yyyyMMddHHmmss", {"20240101103000": "2024-01-01T10:30:00"}, ["2024010110300"]),
        (
            "yyyy-MM-dd HH:mm:ss[.SSS]",
            {
                "2024-01-01 10:30:00": "2024-01-01T10:30:00",
                "2024-01-01 10:30:00.5": BAD,
                "2024-01-01 10:30:00.500": "2024-01-01T10:30:00.5",
            },
            [],
        ),
    ],
)
def test_a_pattern_of_sparks_says_the_form(pattern: str, right: dict[str, Any], wrong: list[str]) -> None:
    options = ReadOptions.of("csv", {"timestampFormat": pattern})
    for text, expected in right.items():
        assert value(text, MOMENT, options) == (expected if expected is BAD else micros(expected)), text
    for text in wrong:
        assert value(text, MOMENT, options) is BAD, text


@pytest.mark.parametrize(
    "pattern", ["EEE, d MMM yyyy", "yyyy-ww", "HH:mm", "yyyy-MM-dd yyyy", "hh:mm dd.MM.yyyy", "QQ yyyy MM dd"]
)
def test_a_pattern_that_is_not_understood_is_refused(pattern: str) -> None:
    with pytest.raises(AssetJobError, match="the pattern"):
        ReadOptions.of("csv", {"dateFormat": pattern})


def test_a_date_has_a_pattern_too() -> None:
    assert value("31.12.2024", pa.date32(), ReadOptions.of("csv", {"dateFormat": "dd.MM.yyyy"})) == date(2024, 12, 31)
    with_time = ReadOptions.of("csv", {"dateFormat": "dd.MM.yyyy HH:mm"})
    assert value("31.12.2024 00:00", pa.date32(), with_time) == date(2024, 12, 31)
    assert value("31.12.2024 10:00", pa.date32(), with_time) is BAD


def test_random_numbers_are_what_python_says() -> None:
    draw = random.Random(7)
    for _ in range(2000):
        text = "".join(draw.choice("0123456789.-+eE") for _ in range(draw.randint(1, 12)))
        plain = re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", text)
        number = Decimal(text) if plain else None
        precision = draw.randint(1, 38)
        scale = draw.randint(0, precision)
        fits = (
            number is not None
            and (number == 0 or abs(number.adjusted()) < 5000)
            and (number or Decimal(0))
            == (number or Decimal(0)).quantize(Decimal(1).scaleb(-scale), context=Context(prec=9999))
            and abs(number) < Decimal(10) ** (precision - scale)
        )
        got = value(text, pa.decimal128(precision, scale))
        assert (got is not BAD) == fits, (text, precision, scale)
        assert got is BAD or got == number
        whole = int(text) if re.fullmatch(r"[+-]?\d+", text) else None
        assert value(text, pa.int32()) == (whole if whole is not None and -(2**31) <= whole < 2**31 else BAD)
        got = value(text, pa.float64())
        as_float = float(text) if plain else math.inf
        lost = math.isinf(as_float) or (as_float == 0 and number != 0)
        assert got == (BAD if lost else as_float), text


def test_random_moments_are_what_python_says() -> None:
    draw, zone = random.Random(8), ZoneInfo("America/New_York")
    options = ReadOptions.of("csv", {"timeZone": "America/New_York"})
    for _ in range(2000):
        moment = datetime(  # noqa: DTZ001 - local
            draw.randint(1, 9999),
            draw.randint(1, 12),
            draw.randint(1, 28),
            draw.randint(0, 23),
            draw.randint(0, 59),
            draw.randint(0, 59),
            draw.choice([0, 500000, 123456]),
        )
        text = moment.isoformat(draw.choice(["T", " "])[0])
        assert value(text, LOCAL) == micros(text)
        if 2 < moment.year < 9998:
            local = moment.replace(tzinfo=zone)
            skipped = local.astimezone(UTC).astimezone(zone).replace(tzinfo=None) != moment
            assert value(text, MOMENT, options) == (BAD if skipped else (local - EPOCH) // timedelta(microseconds=1)), (
                text
            )


def test_the_reason_names_column_type_and_text() -> None:
    no_whole = "the column amount has the type bigint, and '1.5' is no whole number"
    assert reason("amount", pa.int64(), "1.5", ReadOptions()) == no_whole
    assert len(reason("a", pa.date32(), "x" * 5000, ReadOptions())) < 300
    assert reason("a", pa.date32(), "x", ReadOptions()).endswith("'x' is no date as YYYY-MM-DD")
    assert reason("a", MOMENT, "x", ReadOptions()).endswith("'x' is no date and time")


@pytest.mark.parametrize(
    ("kind", "name", "pattern", "what"),
    [
        (pa.date32(), "dateFormat", "dd/MM/yyyy", "no date as dd/MM/yyyy (dateFormat)"),
        (MOMENT, "timestampFormat", "yyyyMMdd'T'HH", "no date and time as yyyyMMdd'T'HH (timestampFormat)"),
        (LOCAL, "timestampNTZFormat", "dd.MM.yyyy HH", "without a zone as dd.MM.yyyy HH (timestampNTZFormat)"),
    ],
)
def test_the_reason_names_the_format_that_was_given_for_its_type_alone(
    kind: pa.DataType, name: str, pattern: str, what: str
) -> None:
    options = ReadOptions.of("csv", {name: pattern})
    assert reason("a", kind, "x", options).endswith(what)
    others = {pa.date32(), MOMENT, LOCAL, pa.int64()} - {kind}
    assert [each for each in others if pattern in reason("a", each, "x", options)] == []
    assert reason("a", kind, None, options) == "the column a is NOT NULL, and has no value"
