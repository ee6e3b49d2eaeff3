"""A watcher that selects nothing although its place has files says so after a while, and no longer once it selects one."""

from __future__ import annotations

from contextlib import aclosing
from pathlib import Path
from typing import Any

import anyio
import pytest

from triggers.base import Finding, TriggerContext
from triggers.file_scan.questions.survey import MOST, Survey, Unmatched
from triggers.local_folder.new_files import FileNewFiles, FileNewFilesOptions


def survey(keys: list[str], selected: int = 0, **options: Any) -> Survey:
    words: dict[str, Any] = {"match": None, "regex": None, "min_size": 0, **options}
    made = Survey(place="under b/", noun="objects", **words)
    for number, key in enumerate(keys):
        made.add(key, key, is_selected=number < selected)
    return made


@pytest.mark.parametrize(
    ("made", "level", "message"),
    [
        (survey([], match="*.csv"), "ok", "there are no objects under b/ yet"),
        (survey(["a", "b"], 2), "ok", "2 objects under b/"),
        (survey(["a", "b"], 1, match="a"), "ok", "2 objects under b/, 1 of which match `a`"),
        (survey(["a"], match="*.csv"), "error", "1 object, none matches `*.csv`; the first: a"),
        (survey(["a"], regex="x$"), "error", "1 object, none matches `x$`; the first: a"),
        (survey(["a"], min_size=5), "error", "1 object, none matches `min_size: 5`; the first: a"),
    ],
)
def test_the_numbers_are_a_sentence(made: Survey, level: str, message: str) -> None:
    assert (made.finding.level, made.finding.message) == (level, message)


def test_a_glob_that_stops_at_a_folder_is_offered_with_any_folders() -> None:
    assert '`match: "**/*.csv"`, which matches 2 of them' in survey(
        ["x/a.csv", "y/z/b.csv", "c.txt"], match="*.csv"
    ).finding.remedy.replace("set ", "")


@pytest.mark.parametrize(
    ("made", "remedy"),
    [
        (survey(["a.json", "x/b.json", "c.txt"], match="*.jsn"), '`match: "**/*.json"` matches 2 of them'),
        (
            survey(["a.json", "x/b.json"], regex="jsn$"),
            'correct `regex`, by `match`, or the place: `match: "**/*.json"` matches 2',
        ),
        (survey(["a", "x/b"], match="*.csv"), '`match: "**"` matches 2 of them'),
        (
            survey(["a.csv", "b.csv", "c.txt"], match="*.csv", min_size=5),
            "lower `min_size`: 2 of them match, and are smaller",
        ),
    ],
)
def test_what_would_match_is_named(made: Survey, remedy: str) -> None:
    assert remedy in made.finding.remedy


def test_the_first_three_files_are_named() -> None:
    assert survey(["a", "b", "c", "d"], match="*.csv").finding.message.endswith("the first: a, b, c")


def test_more_files_than_are_counted_are_named_as_more() -> None:
    made = survey(["a"] * MOST)
    assert made.is_full
    made.has_more = True
    assert made.finding.message.startswith("more than 10,000 objects, none matches")


async def test_it_is_found_out_after_ten_minutes_and_every_ten_minutes_until_something_matches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now, asked, found = 0.0, list[float](), Finding.warning("match", "none matches", "correct it")
    monkeypatch.setattr("triggers.file_scan.questions.survey.anyio.current_time", lambda: now)
    unmatched = Unmatched()

    async def survey() -> Finding | None:
        asked.append(now)
        return found

    async def polled(at: float, *, has_selected: bool = False) -> list[Finding]:
        nonlocal now
        now = at
        await unmatched.look(survey, has_selected=has_selected)
        return [*unmatched.findings]

    assert await polled(0) == []
    assert unmatched.seconds_left == 600
    assert await polled(599) == []
    assert unmatched.seconds_left == 1, "a watcher that rests for an hour is polled in time"
    assert (await polled(600), asked) == ([found], [600])
    assert (await polled(900), asked) == ([found], [600]), "it stands, and the place is not listed again"
    found = Finding.ok("match", "there are no files yet")
    assert (await polled(1200), asked) == ([], [600, 1200]), "an empty place is none to complain about"
    found = Finding.error("match", "none matches", "correct it")
    assert await polled(1800) == [Finding.warning("match", "none matches", "correct it")], "the watcher itself works"
    assert await polled(1801, has_selected=True) == []
    assert unmatched.seconds_left == float("inf")


async def test_a_running_watcher_without_a_match_has_a_finding_until_a_file_matches(tmp_path: Path) -> None:
    options = FileNewFilesOptions.model_validate(
        {"path": str(tmp_path), "match": "*.csv", "interval": "1ms", "min_age": "0s"}
    )
    trigger = FileNewFiles(options, None, TriggerContext(watcher="w"))
    trigger._unmatched.after = 0.05
    with anyio.fail_after(20):
        async with aclosing(trigger.events(None)) as batches:
            async for batch in batches:
                if not batch.findings and batch.whole_since is not None:
                    break  # an empty place is none to complain about
            (tmp_path / "a.txt").touch()
            async for batch in batches:
                if batch.findings:
                    break
            [finding] = batch.findings or ()
            assert (finding.check, finding.level) == ("match", "warning")
            assert finding.message == "1 file, none matches `*.csv`; the first: a.txt"
            (tmp_path / "b.csv").touch()
            async for batch in batches:
                if not batch.findings:
                    break
