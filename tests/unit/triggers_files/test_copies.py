"""A folder or bucket in whose place copies lie: a person decides about many, and few are new files like all others."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.unit.triggers_files.dict_host import DictHost
from tests.unit.triggers_files.simulated_bucket import SimulatedPage, SimulatedVersion
from triggers.base import TriggerContext
from triggers.errors import ConfigurationError, SourceCopied
from triggers.file_scan.matching import Matcher
from triggers.file_scan.rules.copies import CopyRule
from triggers.file_scan.rules.modes import StrictAlgorithm, WindowAlgorithm
from triggers.file_scan.scanner import Scanner, Step
from triggers.file_scan.state.scan_state import ScanState
from triggers.file_scan.versions import SECOND, content_part, copy_of, fingerprint
from triggers.local_folder.folder import list_files
from triggers.local_folder.new_files import FileNewFiles, FileNewFilesOptions

T = 1_800_000_000 * SECOND
HOUR = 3600 * SECOND
BOTH = pytest.mark.parametrize("mode", ["strict", "window"])


class Folder:
    """A folder and its watcher, which is made anew for each poll, as after a failure."""

    def __init__(self, root: Path, mode: str, **options: Any) -> None:
        self.path, self.host = root / "in", DictHost()
        self.options = {"path": str(self.path), "mode": mode, "min_age": "0s", "start": "all", **options}
        self.path.mkdir()

    def write(self, *numbers: int) -> None:
        for number in numbers:
            (self.path / f"{number:03}").write_text(f"{number}")

    def copy(self, *numbers: int) -> None:
        """Put copies in the place of these files, or of all: they have all times but the ctime, and other inode numbers."""
        aside = self.path.with_name("aside")
        shutil.copytree(self.path, aside)
        for number in numbers or [int(each.name) for each in aside.iterdir()]:
            (self.path / f"{number:03}").unlink()
            (aside / f"{number:03}").rename(self.path / f"{number:03}")
        shutil.rmtree(aside)

    def trigger(self) -> FileNewFiles:
        return FileNewFiles(FileNewFilesOptions.model_validate(self.options), None, TriggerContext(watcher="w"))

    async def poll(self, *, commits: int | None = None) -> list[int]:
        """Return the numbers of the files that are reported. `commits`: the process dies right after so many."""
        before = len(self.host.files)
        if commits is None:
            await self.host.run(self.trigger())
        else:
            await self.host.run_until_commit(self.trigger(), commits=commits)
        return [int(file["path"][-3:]) for file in self.host.files[before:]]

    async def blocked(self) -> SourceCopied:
        with pytest.raises(SourceCopied) as raised:
            await self.host.run(self.trigger())
        return raised.value

    def decide(self, to: str) -> None:
        self.host.commit(self.trigger().rewound(self.host.stored, to))


@BOTH
async def test_a_folder_on_another_disk_waits_for_a_person_who_keeps_what_was_handled(
    tmp_path: Path, mode: str
) -> None:
    folder = Folder(tmp_path, mode)
    folder.write(*range(40))
    assert len(await folder.poll()) == 40
    folder.copy()
    for _ in range(2):
        finding = (await folder.blocked()).finding
        assert (finding.check, finding.level) == ("copied", "warning")
        assert finding.message.startswith(
            "40 of 40 new files have path, size and time of writing of files that were handled, but another inode number or"
            " time of change, since 2"
        )
        assert finding.remedy.startswith("put back what they replace, or decide: `watcher rewind w --to here` counts")
    assert len(folder.host.files) == 40
    folder.decide("here")
    assert await folder.poll() == []
    if mode == "strict":
        assert len(folder.host.rows) == 40, "each takes the row of what it replaced"
    folder.write(40)
    assert await folder.poll() == [40]
    folder.copy()
    await folder.blocked()


@BOTH
async def test_a_person_may_have_all_of_it_reported_again(tmp_path: Path, mode: str) -> None:
    folder = Folder(tmp_path, mode)
    folder.write(*range(20))
    await folder.poll()
    folder.copy()
    await folder.blocked()
    folder.decide("start")
    assert len(await folder.poll()) == 20
    assert await folder.poll() == []


@BOTH
async def test_what_is_put_back_ends_it(tmp_path: Path, mode: str) -> None:
    folder = Folder(tmp_path, mode)
    folder.write(*range(30))
    await folder.poll()
    shutil.copytree(folder.path, tmp_path / "copy")
    folder.path.rename(tmp_path / "away")
    (tmp_path / "copy").rename(folder.path)
    await folder.blocked()
    folder.path.rename(tmp_path / "copy")
    (tmp_path / "away").rename(folder.path)
    folder.write(30)
    assert await folder.poll() == [30]
    assert folder.host.stored is not None
    assert ScanState.from_json(folder.host.stored.state).copied is None
    with pytest.raises(ConfigurationError, match="nothing to keep with `here`"):
        folder.decide("here")


@BOTH
@pytest.mark.parametrize(("copies", "new"), [(19, 0), (10, 9), (30, 31), (1, 0)])
async def test_few_copies_are_new_files(tmp_path: Path, mode: str, copies: int, new: int) -> None:
    folder = Folder(tmp_path, mode)
    folder.write(*range(50))
    await folder.poll()
    folder.copy(*range(copies))
    folder.write(*range(100, 100 + new))
    assert sorted(await folder.poll()) == [*range(copies), *range(100, 100 + new)]
    assert await folder.poll() == []


@BOTH
async def test_what_is_new_beside_many_copies_is_reported(tmp_path: Path, mode: str) -> None:
    folder = Folder(tmp_path, mode)
    folder.write(*range(50))
    await folder.poll()
    folder.copy()
    folder.write(*range(100, 150))
    await folder.blocked()
    assert sorted(int(file["path"][-3:]) for file in folder.host.files[50:]) == [*range(100, 150)]
    folder.write(150)
    await folder.blocked()
    assert len(folder.host.files) == 101
    folder.decide("here")
    assert await folder.poll() == []


@BOTH
async def test_copies_can_be_reported_without_a_question(tmp_path: Path, mode: str) -> None:
    folder = Folder(tmp_path, mode, on_copied="report")
    folder.write(*range(30))
    await folder.poll()
    folder.copy()
    assert len(await folder.poll()) == 30


@BOTH
async def test_a_crash_while_copies_wait_loses_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    """The new files of each page are committed at once, and a resumed scan leaves copies to a whole one."""
    monkeypatch.setattr("triggers.local_folder.new_files.PAGE", 10)
    for commits in range(1, 9):
        (tmp_path / str(commits)).mkdir()
        folder = Folder(tmp_path / str(commits), mode)
        folder.write(*range(0, 80, 2))
        await folder.poll()
        folder.copy(*range(0, 76, 4))
        folder.write(*range(1, 80, 2))
        reported = await folder.poll(commits=commits)
        for _ in range(3):
            reported += await folder.poll()
        assert sorted(reported) == sorted([*range(0, 76, 4), *range(1, 80, 2)])


@BOTH
async def test_many_copies_are_noticed_after_a_crash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    monkeypatch.setattr("triggers.local_folder.new_files.PAGE", 10)
    folder = Folder(tmp_path, mode)
    folder.write(*range(40))
    await folder.poll()
    folder.copy()
    folder.write(*range(100, 120))
    assert len(await folder.poll(commits=1)) > 0
    assert all(number >= 100 for number in await folder.poll()), "the rest of the scan"
    await folder.blocked()
    folder.decide("here")
    assert await folder.poll() == []
    assert len(folder.host.files) == 60


async def test_a_window_watcher_that_was_down_for_longer_than_its_window_remembers_what_it_waits_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Folder(tmp_path, "window", lateness="1h")
    folder.write(*range(40))
    await folder.poll()
    folder.copy()
    later = (folder.path / "000").stat().st_ctime_ns // 1000 + 5 * HOUR
    monkeypatch.setattr("triggers.local_folder.new_files.clock", lambda: later)
    for _ in range(2):
        await folder.blocked()
    folder.decide("here")
    assert await folder.poll() == []


async def test_a_position_of_format_2_goes_on_as_it_was(tmp_path: Path) -> None:
    folder = Folder(tmp_path, "strict")
    folder.write(*range(30))
    await folder.poll()
    files = list_files(str(folder.path), Matcher()).files
    assert {file.fingerprint for file in files} == folder.host.rows.keys()
    former = {file.aliases[-1]: file.modified for file in files}
    assert not former.keys() & folder.host.rows.keys()
    folder.host.rows = dict(former)
    folder.write(30)
    assert await folder.poll() == [30]
    assert len(folder.host.rows) == 31
    assert not former.keys() & folder.host.rows.keys()
    folder.copy()
    await folder.blocked()


RULE = CopyRule(same="key, size and ETag", other="LastModified", within=HOUR)


def put(number: int, *, at: int, content: int = 0) -> SimulatedVersion:
    return Put(key=f"k{number:03}", number=content, modified=at, visible=at)


class Put(SimulatedVersion):
    @property
    def fingerprint(self) -> int:
        return copy_of(fingerprint(f"{self.key} {self.number}".encode()), self.modified // SECOND)


class Bucket:
    """A scanner of a bucket, and its host."""

    def __init__(self, mode: str = "strict", **options: Any) -> None:
        algorithm = StrictAlgorithm() if mode == "strict" else WindowAlgorithm(24 * HOUR)
        always = {"start": "all", "min_age": 0, "now": 0.0, "forget_after": 7 * 24 * HOUR, "copy_rule": RULE}
        self.host, self.now = DictHost(), 0.0
        self.scanner = Scanner(algorithm, None, **{**always, **options})

    def look(self, listed: list[SimulatedVersion], *, at: int) -> Step:
        self.now += 100
        step = self.scanner.advance(SimulatedPage(clock=at, last=None, listed=listed), now=self.now)
        self._commit(step)
        return step

    def emitted(self, listed: list[SimulatedVersion], *, at: int) -> list[str]:
        step = self.look(listed, at=at)
        assert step.copied is None
        return sorted(version.key for version in [*step.versions, *self._last()])

    def _last(self) -> Iterator[Any]:
        assert self.scanner.copies is not None
        while copies := self.scanner.copies.take(7):
            self._commit(self.scanner.emitted_again(copies, self.now))
            yield from copies
        if self.scanner.last is not None and (ready := self.scanner.last.ready):
            self._commit(self.scanner.emit_last(ready, self.now))
            yield from ready

    def _commit(self, step: Step) -> None:
        if step.position is not None:
            self.host.commit(step.position)


@BOTH
@pytest.mark.parametrize(
    ("again", "is_mass"),
    [
        (lambda _: T + HOUR, True),
        (lambda n: T + HOUR + n * 100 * SECOND, True),
        (lambda n: T + HOUR + n * 130 * SECOND, False),
        (lambda n: T - HOUR - n * 1000 * SECOND, True),
        (lambda n: T - HOUR - n * 1000 * SECOND if n % 2 else T + HOUR, True),
    ],
)
def test_objects_that_were_put_again_over_a_day_are_new(mode: str, again: Any, *, is_mass: bool) -> None:
    """Within an hour, or older than before, they are a restored bucket; else a program writes the same now and then."""
    bucket, numbers = Bucket(mode), range(30)
    assert len(bucket.emitted([put(n, at=T) for n in numbers], at=T + SECOND)) == 30
    copies = [put(n, at=again(n)) for n in numbers]
    step = bucket.look(copies, at=T + 5 * HOUR)
    if is_mass:
        assert step.versions == []
        assert step.copied is not None
        assert "30 of 30 new files have key, size and ETag of files that were handled, but another LastModified" in (
            step.copied.sentence("w")
        )
        return
    assert step.copied is None
    assert len([*bucket._last()]) == 30


def test_hints_leave_copies_to_the_scans() -> None:
    bucket = Bucket()
    bucket.emitted([put(n, at=T) for n in range(30)], at=T + SECOND)
    copies = [put(n, at=T + HOUR) for n in range(30)]
    step = bucket.scanner.look_up([*copies, put(99, at=T + HOUR)], clock=T + HOUR, now=bucket.now)
    assert [version.key for version in step.versions] == ["k099"]
    bucket._commit(step)
    assert bucket.look([*copies, put(99, at=T + HOUR)], at=T + HOUR).copied is not None


def test_more_copies_than_are_kept_in_memory_are_left_to_the_next_scan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("triggers.file_scan.rules.copies.MOST_WAITING", 25)
    bucket = Bucket()
    bucket.emitted([put(n, at=T) for n in range(40)], at=T + SECOND)
    listed = [*(put(n, at=T + HOUR) for n in range(40)), *(put(n, at=T + HOUR) for n in range(100, 160))]
    assert len(bucket.emitted(listed, at=T + HOUR)) == 85
    assert not bucket.scanner.is_settled
    assert len(bucket.emitted(listed, at=T + HOUR)) == 15


def test_where_a_scan_stops_at_a_name_the_copies_before_it_are_emitted() -> None:
    bucket = Bucket(stops=True)
    bucket.emitted([put(n, at=T) for n in range(10)], at=T + SECOND)

    class Unnamed(Put):
        @property
        def fault(self) -> str | None:
            return "no name"

    bad = Unnamed(key="k050", number=0, modified=T, visible=T)
    step = bucket.look([put(3, at=T + HOUR), put(20, at=T), bad, put(60, at=T)], at=T + HOUR)
    assert step.stopped_at is bad
    assert sorted(version.key for version in step.versions) == ["k003", "k020"]  # type: ignore[attr-defined]


def test_a_state_with_copies_is_read_back_as_it_was_written() -> None:
    for state in (ScanState(copied=T), ScanState(adopts=True)):
        assert ScanState.from_json(state.to_json()) == state
        assert state.is_unfinished


def test_copies_share_the_upper_bits_and_differ_in_the_lower_ones(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    [file] = list_files(str(tmp_path), Matcher()).files
    others = [replace(file, inode=file.inode + step) for step in range(1, 100_000)]
    assert len({file.fingerprint, *(each.fingerprint for each in others)}) == 100_000
    assert {content_part(each.fingerprint) for each in others} == {content_part(file.fingerprint)}
    other = replace(file, size=2)
    assert content_part(other.fingerprint) != content_part(file.fingerprint)


async def test_a_watcher_that_meets_no_new_file_keeps_no_index(tmp_path: Path) -> None:
    folder = Folder(tmp_path, "strict")
    folder.write(*range(30))
    await folder.poll()
    trigger = folder.trigger()
    async with aclosing(trigger.events(folder.host.stored)) as batches:
        async for batch in batches:
            assert batch.position is None
            break
    assert trigger.scanner_from(None)._handled.added is None
