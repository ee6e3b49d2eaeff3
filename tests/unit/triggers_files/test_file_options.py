from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from triggers.file_scan.rules.modes import StrictAlgorithm, WindowAlgorithm
from triggers.file_scan.versions import format_moment, length_of, moment_of, parse_moment
from triggers.local_folder.options import FileNewFilesOptions
from triggers.options import Duration, format_duration, parse_duration
from triggers.s3.new_files import S3NewFiles, S3NewFilesOptions

DURATIONS = TypeAdapter(Duration)


def options(**given: Any) -> S3NewFilesOptions:
    return S3NewFilesOptions.model_validate({"bucket": "landing", **given})


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("500ms", timedelta(milliseconds=500)),
        ("10s", timedelta(seconds=10)),
        ("5m", timedelta(minutes=5)),
        ("2h", timedelta(hours=2)),
        ("7d", timedelta(days=7)),
        ("0s", timedelta(0)),
    ],
)
def test_durations(text: str, length: timedelta) -> None:
    assert DURATIONS.validate_python(text) == length
    assert DURATIONS.validate_python(length) == length


@pytest.mark.parametrize("wrong", ["10", 10, "1.5s", "-1s", "1 s", "PT1S", "s", "", None, True, "1h30m", "36501d"])
def test_a_wrong_duration_is_answered_by_how_to_write_one(wrong: object) -> None:
    with pytest.raises(ValidationError, match="like 500ms, 10s, 5m, 2h or 7d"):
        DURATIONS.validate_python(wrong)


@given(st.integers(0, 10**9))
def test_a_duration_is_written_as_it_is_read(milliseconds: int) -> None:
    length = timedelta(milliseconds=milliseconds)
    assert parse_duration(format_duration(length)) == length


def test_a_duration_goes_to_json_as_in_the_yaml() -> None:
    assert DURATIONS.dump_json(timedelta(minutes=5)) == b'"5m"'
    assert DURATIONS.dump_json(timedelta(0)) == b'"0s"'
    assert DURATIONS.json_schema(mode="serialization")["type"] == "string"


@given(st.datetimes(min_value=datetime(1970, 1, 1), max_value=datetime(9000, 1, 1), timezones=st.just(UTC)))  # noqa: DTZ001 - hypothesis asks for naive bounds
def test_a_moment_is_read_as_it_was_written(value: datetime) -> None:
    assert parse_moment(format_moment(moment_of(value))) == moment_of(value)


def test_the_defaults_are_those_of_the_documentation() -> None:
    wanted = options()
    assert (wanted.start, wanted.mode, wanted.lateness) == ("now", "window", timedelta(hours=24))
    assert (wanted.interval, wanted.min_age, wanted.batch.max_files) == (timedelta(seconds=10), timedelta(0), 1000)
    assert (wanted.min_size, wanted.directory_markers, wanted.notifications) == (0, False, None)


def test_a_start_is_now_or_all_or_a_time() -> None:
    assert options(start="all").start_from == "all"
    assert options(start="2026-11-20T09:00:00Z").start_from == parse_moment("2026-11-20T09:00:00Z")
    assert options(start="2026-11-20T10:00:00+01:00").start_from == parse_moment("2026-11-20T09:00:00Z")
    assert options(start="2026-11-20").start_from == parse_moment("2026-11-20T00:00:00Z")


def test_a_mode_is_an_algorithm() -> None:
    assert isinstance(options(mode="strict").algorithm(), StrictAlgorithm)
    window = options(lateness="2h").algorithm()
    assert isinstance(window, WindowAlgorithm)
    assert window._lateness == length_of(timedelta(hours=2))


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"start": "yesterday"}, "write now, all, or an ISO timestamp"),
        ({"start": "0001-01-01T00:00:00+14:00"}, "write now, all, or an ISO timestamp"),
        ({"match": "*", "regex": "."}, "exclude each other"),
        ({"regex": "("}, "no valid pattern"),
        ({"match": "[b-a]"}, "no valid pattern"),
        ({"min_age": "24h"}, "min_age must be below lateness"),
        ({"interval": "0s"}, "greater than 0"),
        ({"batch": {"max_files": 0}}, "greater than or equal to 1"),
        ({"notifications": "landing-events"}, "should match pattern"),
        ({"bucket": "fast--use1-az4--x-s3"}, "directory buckets do not list in key order"),
        ({"bucket": "point-account--use1-az4--xa-s3"}, "directory buckets do not list in key order"),
        ({"bucket": "not a bucket"}, "should match pattern"),
        ({"prefx": "x"}, "Extra inputs are not permitted"),
    ],
)
def test_options_that_cannot_work_are_refused_with_a_sentence(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValidationError, match=sentence):
        options(**given)


def test_strict_has_no_lateness_to_stay_below() -> None:
    assert options(mode="strict", min_age="48h").min_age == timedelta(hours=48)


def test_bucket_and_prefix_default_from_the_uri() -> None:
    assert S3NewFiles.defaults("s3://landing/orders/") == {"bucket": "landing", "prefix": "orders/"}
    assert S3NewFiles.defaults("s3://landing") == {"bucket": "landing", "prefix": ""}
    assert S3NewFiles.defaults("s3://landing/with%20space/") == {"bucket": "landing", "prefix": "with space/"}
    assert S3NewFiles.defaults("postgres://h/d/s/t") == {}


@pytest.mark.parametrize(
    ("glob", "right"),
    [
        ("/data/in/*.csv", "*.csv"),
        ("/data/in/2026/**/*.csv", "2026/**/*.csv"),
        ("/elsewhere/orders/*.csv", "*.csv"),
        ("/**/*.csv", "**/*.csv"),
        ("/*.csv", "*.csv"),
        ("./*.csv", "*.csv"),
        ("././a/*.csv", "a/*.csv"),
        ("../in/*.csv", "*.csv"),
        ("~/in/*.csv", "*.csv"),
        ("file:///data/in/*.csv", "*.csv"),
        ("/data/in/orders.csv", "orders.csv"),
    ],
)
def test_a_pattern_that_begins_above_the_watched_folder_is_refused(glob: str, right: str) -> None:
    for patterns in ({"match": glob}, {"last": [glob]}, {"assets": {"orders": glob}}):
        with pytest.raises(ValidationError, match="below the watched folder") as refused:
            FileNewFilesOptions.model_validate({"path": "/data/in", **patterns})
        assert f"write `{right}`" in str(refused.value)


@pytest.mark.parametrize(
    "glob", ["s3://landing/orders/*.csv", "s3a://landing/orders/*.csv", "/orders/*.csv", "./*.csv"]
)
def test_a_pattern_that_begins_above_the_watched_prefix_is_refused(glob: str) -> None:
    with pytest.raises(ValidationError, match="below the watched prefix") as refused:
        options(prefix="orders/", match=glob)
    assert "write `*.csv`" in str(refused.value)


@pytest.mark.parametrize(
    "glob", ["*.csv", "**/*.csv", ".hidden/*.csv", "a/./b", "..data/*", "~backup/*", "a:/b", "data/in/*.csv"]
)
def test_a_pattern_below_the_watched_folder_is_accepted(glob: str) -> None:
    assert FileNewFilesOptions.model_validate({"path": "/data/in", "match": glob}).match == glob


def test_an_expression_that_begins_at_the_root_is_refused() -> None:
    with pytest.raises(ValidationError, match="where no name begins with `/`"):
        FileNewFilesOptions.model_validate({"path": "/data/in", "regex": "^/data/in/.*csv$"})
