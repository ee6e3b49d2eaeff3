"""A watcher of a real folder whose patterns change: what was handled stays handled, and only what is added is new."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from tests.unit.triggers_files.dict_host import DictHost
from triggers.base import StoredPosition, TriggerContext
from triggers.errors import ConfigurationError
from triggers.file_scan.state.scan_state import ScanState
from triggers.local_folder.new_files import FileNewFiles, FileNewFilesOptions

BOTH = pytest.mark.parametrize("mode", ["strict", "window"])


class Folder:
    """A folder and its watcher, which reloads change."""

    def __init__(self, path: Path, mode: str, **options: Any) -> None:
        self.path, self.options, self.host = (
            path,
            {"path": str(path), "mode": mode, "min_age": "0s", "start": "all"},
            DictHost(),
        )
        self.options.update(options)

    def write(self, *names: str, content: str = "x") -> None:
        for name in names:
            place = self.path / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(content)

    def trigger(self) -> FileNewFiles:
        return FileNewFiles(FileNewFilesOptions.model_validate(self.options), None, TriggerContext(watcher="w"))

    def reload(self, **options: Any) -> tuple[FileNewFiles, bool]:
        """Change options; return the trigger, and whether `here` is possible."""
        before = json.loads(json.dumps(self.trigger().source_identity()))
        self.options.update(options)
        trigger = self.trigger()
        return trigger, trigger.reselects(before)

    def here(self, **options: Any) -> None:
        trigger, is_possible = self.reload(**options)
        assert is_possible
        self.host.commit(trigger.rewound(self.stored, "here"))

    @property
    def stored(self) -> StoredPosition:
        assert self.host.stored is not None
        return self.host.stored

    async def poll(self, *, commits: int | None = None) -> Sequence[str]:
        """Return the names of the files that are reported; `commits`: the process dies right after so many."""
        before = len(self.host.files)
        async with aclosing(self.trigger().events(self.host.stored)) as batches:
            async for batch in batches:
                if batch.position is None:
                    break
                self.host.commit(batch.position, batch.events)
                commits = None if commits is None else commits - 1
                if commits == 0:
                    break
        return [os.path.relpath(file["path"], self.path) for file in self.host.files[before:]]


@BOTH
async def test_a_wider_pattern_brings_only_what_it_adds(tmp_path: Path, mode: str) -> None:
    folder = Folder(tmp_path, mode, match="*.csv")
    folder.write("a.csv", "b.csv", "a.json", "c.txt")
    assert await folder.poll() == ["a.csv", "b.csv"]
    folder.write("meanwhile.csv", "meanwhile.json")
    folder.here(match="*.[cj]s*")
    assert await folder.poll() == ["a.json", "meanwhile.csv", "meanwhile.json"]
    assert await folder.poll() == []


@BOTH
async def test_a_narrower_pattern_brings_nothing_and_is_no_mass(tmp_path: Path, mode: str) -> None:
    folder = Folder(tmp_path, mode)
    folder.write(*(f"{number}.json" for number in range(60)), *(f"{number}.csv" for number in range(3)))
    assert len(await folder.poll()) == 63
    folder.here(match="*.csv")
    trigger = folder.trigger()
    await folder.host.run(trigger, polls=3)
    assert (len(folder.host.files), list(trigger.findings)) == (63, [])
    folder.write("new.csv")
    folder.here(match=None)
    assert await folder.poll() == ["new.csv"], "what returns within `forget_after` is no news"


@BOTH
async def test_a_pattern_that_selects_nothing_is_no_mass(tmp_path: Path, mode: str) -> None:
    folder = Folder(tmp_path, mode, match="*.csv")
    folder.write(*(f"{number}.csv" for number in range(60)))
    await folder.poll()
    folder.here(match="*.json")
    trigger = folder.trigger()
    await folder.host.run(trigger, polls=3)
    assert [*trigger.findings] == []


@BOTH
@pytest.mark.parametrize("start", ["now", "2020-01-01T00:00:00Z"])
async def test_the_start_decides_about_what_was_selected_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, start: str
) -> None:
    monkeypatch.setattr("triggers.local_folder.folder._CLOCK_LAG", -1_000_000)  # all files are older than the start
    folder = Folder(tmp_path, mode, match="*.csv", start=start)
    folder.write("a.csv", "a.json")
    reported = await folder.poll()
    assert reported == ([] if start == "now" else ["a.csv"])
    folder.here(match=None)
    assert await folder.poll() == ["a.json"]


@BOTH
async def test_going_back_before_a_decision_goes_on_as_if_nothing_had_been(tmp_path: Path, mode: str) -> None:
    folder = Folder(tmp_path, mode, match="*.csv")
    folder.write("a.csv", "a.json")
    await folder.poll()
    identity, state, rows = folder.trigger().source_identity(), folder.host.state, dict(folder.host.rows)
    trigger, is_possible = folder.reload(match="*")
    assert is_possible
    await trigger.decisions(folder.stored)
    folder.reload(match="*.csv")
    assert (folder.trigger().source_identity(), folder.host.state, folder.host.rows) == (identity, state, rows)
    folder.write("b.csv")
    assert await folder.poll() == ["b.csv"]


@BOTH
async def test_the_decisions_come_with_what_each_would_report(tmp_path: Path, mode: str) -> None:
    folder = Folder(tmp_path, mode, match="*.csv")
    folder.write("a.csv", "b.csv", "c.csv", "a.json", "b.json")
    await folder.poll()
    trigger, _ = folder.reload(match=None)
    assert await trigger.decisions(folder.stored) == (
        "`watcher rewind w --to here` keeps what was handled and reports what only the new selection has (2 now),"
        " `watcher rewind w --to now` counts all of it as known (5), `watcher rewind w --to start` reports all of it again (5)"
    )


async def test_a_look_that_takes_too_long_says_what_there_is_at_least(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("triggers.file_scan.questions.reselection.LOOK_WITHIN", 0.0)
    folder = Folder(tmp_path, "strict", match="*.csv")
    folder.write("a.csv")
    await folder.poll()
    trigger, _ = folder.reload(match=None)
    assert "(at least 0 now)" in await trigger.decisions(folder.stored)


@BOTH
@pytest.mark.parametrize("commits", range(1, 7))
async def test_a_scan_that_a_reload_stopped_begins_anew_and_repeats_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, commits: int
) -> None:
    """In mode `window` a first scan reports old files without recording them."""
    monkeypatch.setattr("triggers.local_folder.new_files.PAGE", 2)
    folder = Folder(tmp_path, mode, regex=r"[0-4]\.csv$", lateness="1ms")
    folder.write(*(f"{number}.csv" for number in range(10)))
    reported = [*await folder.poll(commits=commits)]
    folder.here(regex=r"[0-6]\.csv$")
    reported += await folder.poll(commits=1)
    folder.here(regex=None, match="*.csv")
    reported += await folder.poll()
    if mode == "window":  # what is below the horizon of a whole scan is handled
        assert len(reported) == len(set(reported))
        assert {f"{number}.csv" for number in range(5)} <= set(reported)
    else:
        assert sorted(reported) == [f"{number}.csv" for number in range(10)]
    assert await folder.poll() == []
    assert ScanState.from_json(folder.stored.state).reselected is None


def test_here_is_refused_where_there_is_nothing_to_keep(tmp_path: Path) -> None:
    folder = Folder(tmp_path, "strict")
    for position in (None, StoredPosition(state=ScanState().to_json())):
        with pytest.raises(ConfigurationError, match="there is nothing to keep with `here`"):
            folder.trigger().rewound(position, "here")


@pytest.mark.parametrize(
    ("change", "is_possible"),
    [
        ({"match": "*.csv"}, True),
        ({"regex": "x"}, True),
        ({"min_size": 7}, True),
        ({"path": "/elsewhere"}, False),
        ({"path": "/elsewhere", "match": "*.csv"}, False),
        ({"mode": "window"}, False),
        ({}, False),
    ],
)
def test_only_another_selection_of_the_same_place_is_a_reselection(
    tmp_path: Path, change: dict[str, Any], *, is_possible: bool
) -> None:
    assert Folder(tmp_path, "strict").reload(**change)[1] is is_possible


async def test_a_state_in_a_reselection_is_read_back_as_it_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("triggers.local_folder.new_files.PAGE", 2)
    folder = Folder(tmp_path, "window", match="*.csv")
    folder.write(*(f"{number}.csv" for number in range(10)))
    await folder.poll(commits=1)
    folder.here(match="*")
    document = folder.stored.state
    assert [passed["cursor"] for passed in document["reselected"]] == ["1.csv"]  # type: ignore[union-attr, index, call-overload]
    assert ScanState.from_json(document).to_json() == document
