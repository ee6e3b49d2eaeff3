"""`deadline` of a job and `expect_by` of an asset."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from config.models import AssetConfig, JobConfig


def job(deadline: Any) -> JobConfig:
    return JobConfig.model_validate({"spark": {"application": "a.py"}, "deadline": deadline})


@pytest.mark.parametrize(
    ("on", "cron"),
    [("daily", "5 7 * * *"), ("weekdays", "5 7 * * 1-5"), (["mon", "sun"], "5 7 * * 1,7"), (["wed"], "5 7 * * 3")],
)
def test_a_time_on_days_is_a_cron_expression(on: Any, cron: str) -> None:
    assert job({"by": "07:05", "on": on}).clock_deadline.cron == cron


def test_a_duration_is_the_short_form_of_after() -> None:
    assert job("2h").clock_deadline.after == job({"after": "2h"}).clock_deadline.after
    assert (job("2h").clock_deadline.cron, job(None).clock_deadline.after) == (None, None)


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"by": "7:00"},
        {"by": "24:00"},
        {"by": 700},
        {"by": "07:00", "on": []},
        {"by": "07:00", "on": ["monday"]},
        {"by": "07:00", "timezone": "Europe/Berln"},
        {"by": "07:00", "since": "0s"},
        {"after": "2h", "since": "24h"},
        {"after": "2h", "then": "run"},
        "07:00",
    ],
)
def test_what_would_have_no_effect_is_refused(wrong: Any) -> None:
    with pytest.raises(ValidationError):
        job(wrong)


def test_an_asset_expects_an_event_by_a_time() -> None:
    for written in ("06:30", {"by": "06:30", "timezone": "Europe/Berlin", "on": "weekdays", "since": "12h"}):
        assert AssetConfig.model_validate({"uri": "x-a:b", "expect_by": written}).expect_by is not None
    for wrong in ("6:30", {}, {"by": "06:30", "after": "2h"}):
        with pytest.raises(ValidationError):
            AssetConfig.model_validate({"uri": "x-a:b", "expect_by": wrong})


@pytest.mark.parametrize(
    ("written", "time"),
    [
        *(("6:00", "06:00"), ("6:5", "06:05"), ("18.30", "18:30"), ("06:00:00", "06:00"), ("24:00", "00:00")),
        *(
            ("6am", "06:00"),
            ("6 PM", "18:00"),
            ("6:30 p.m.", "18:30"),
            ("12am", "00:00"),
            ("18h", "18:00"),
            ("7", "07:00"),
        ),
        *(
            (360, "06:00"),
            (1110, "18:30"),
            (6, "06:00"),
            (0, "00:00"),
            (1830, "18:30"),
            (21600, "06:00"),
            (6.3, "06:30"),
        ),
    ],
)
def test_a_time_of_the_day_in_another_spelling_is_named_in_quotes(written: Any, time: str) -> None:
    """YAML 1.1 reads `6:00` as the number 360, and `06` as 6."""
    for wrong in (written, {"by": written}):
        with pytest.raises(ValidationError, match="must be a time of the day in quotes") as refused:
            AssetConfig.model_validate({"uri": "x-a:b", "expect_by": wrong})
        assert f'"{time}"' in str(refused.value)


@pytest.mark.parametrize("wrong", ["noon", "25:00", "6:75", -1, 99_999, True, None, [], ""])
def test_what_is_no_time_of_the_day_is_answered_by_an_example(wrong: Any) -> None:
    with pytest.raises(ValidationError, match='write a time such as "07:00"'):
        AssetConfig.model_validate({"uri": "x-a:b", "expect_by": {"by": wrong}})


def test_a_time_in_the_place_of_a_duration_is_written_with_by() -> None:
    with pytest.raises(ValidationError, match=r'a time of the day is written `\{by: "07:00"\}`'):
        job("7:00")
