"""Random histories of sources as people have them: mounts that come and go, listings that lie, files that people move.

Each history has a real folder, or a bucket behind an S3 server that lists too little without a sign, and the real trigger. The
trigger is killed before and after any of its commits. Every version that is there in the end was reported, and none was
reported twice, but for what docs/files.md says: a file that was moved out and in again is new, and so is a copy where inode
numbers count. While all is gone, and only then, people are shown that many files vanished, or until they are forgotten where a
copy took their place.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest

from tests.effort import SEED, effort
from tests.faulty_s3 import Faults, faulty_s3
from tests.servers import fresh_bucket, running_s3
from tests.torture.places import Bucket, Mount, Place
from tests.unit.triggers_files.dict_host import DictHost
from triggers.base import TriggerBatch
from triggers.s3.connection import S3Connection

log = logging.getLogger(__name__)
pytestmark = pytest.mark.service

FOLDERS, BUCKETS = effort(10, 200), effort(1, 200)
STEPS = 40


@dataclass(kw_only=True)
class History:
    """One place, one watcher that is killed now and then, and what it reported."""

    place: Place
    mode: str
    dice: Random
    host: DictHost = field(default_factory=DictHost)
    batches: AsyncGenerator[TriggerBatch, None] | None = None
    match: str | None = None
    """What the watcher selects now."""
    patterns: Sequence[str | None] = ()
    """What reloads make it select."""
    reloads: int = 0
    kills: int = 0
    there: int = 0
    """The files that were there at the last whole poll of the whole place."""
    masses: int = 0
    silent: int = 0
    """Polls of a lost place without the finding `vanished`."""
    endless: int = 0
    """Polls of a place that is whole again with that finding, though no copy took its place since it was last without."""
    copies: int = 0
    """The copies that had been made when it was last whole and without that finding."""

    async def play(self) -> None:
        for _ in range(STEPS):
            self.place.happen(self.dice)
            if self.patterns and self.dice.random() < 0.2:
                await self.reload(self.dice.choice(self.patterns))
            for _ in range(100 if self.dice.random() < 0.02 else self.dice.choice([0, 1, 1, 2])):
                await self.poll(kill=self.dice.random() < 0.1)
        self.place.heal()
        await self.reload(None)
        for _ in range(3):
            await self.poll(kill=False)
        await self.kill()

    async def poll(self, *, kill: bool) -> None:
        """Poll to the end, unless the watcher is killed before or after a commit."""
        is_resumed = False
        if self.batches is None:
            is_resumed = self.host.stored is not None and self.host.stored.state["cursor"] is not None
            self.batches = self.place.trigger(self.mode, self.match).events(self.host.stored)
        async for batch in self.batches:
            if kill and self.dice.random() < 0.3:
                return await self.kill()
            if batch.position is None:
                self._check_findings(batch, is_resumed=is_resumed)
                return None
            self.host.commit(batch.position, batch.events)
            if kill and self.dice.random() < 0.5:
                return await self.kill()
        raise AssertionError("the trigger ended")

    async def reload(self, match: str | None) -> None:
        """Change the pattern. A person decides for `here` after a while, or goes back to the one of before."""
        if match == self.match:
            return
        await self.kill()
        self.reloads += 1
        trigger, before = self.place.trigger(self.mode, match), self.place.trigger(self.mode, self.match)
        if (stored := self.host.stored) is None:
            self.match = match
            return
        assert trigger.reselects(before.source_identity())
        for _ in range(self.dice.choice([0, 1, 5])):
            self.place.happen(self.dice)
        if match is None or self.dice.random() < 0.8:
            self.host.commit(trigger.rewound(stored, "here"))
            self.match = match

    def _check_findings(self, batch: TriggerBatch, *, is_resumed: bool) -> None:
        """Compare the findings after a whole poll with what became of the place."""
        if is_resumed or self.patterns:  # the next poll can tell, or it depends on the pattern
            return
        is_shown = any(finding.check == "vanished" for finding in batch.findings or ())
        if self.place.is_lost:
            self.masses += self.there >= 20
            self.silent += self.there >= 20 and not is_shown
        elif self.place.is_whole:
            self.there = len(self.place.listed())
            if not is_shown:
                self.copies = self.place.copies
            self.endless += is_shown and self.place.copies == self.copies

    async def kill(self) -> None:
        if self.batches is not None:
            await self.batches.aclose()
            self.batches, self.kills = None, self.kills + 1

    @property
    def outcome(self) -> dict[str, int]:
        reported = Counter(self.place.named(file) for file in self.host.files)
        repeats = (times - 1 - self.place.moved_in[version] for version, times in reported.items())
        lost = self.place.listed() - reported.keys()
        findings = {"masses": self.masses, "silent": self.silent, "endless": self.endless}
        return {
            "files": len(reported),
            "lost": len(lost),
            "repeated": sum(max(0, each) for each in repeats),
            **findings,
        }


@pytest.fixture(params=[0.0, 60.0], ids=["quiet commits at once", "quiet commits once a minute"])
def _quiet_commits(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a history that takes a second, what is absent is written at once or never."""
    monkeypatch.setattr("triggers.file_scan.scanner.QUIET_COMMIT_SECONDS", request.param)
    monkeypatch.setattr("triggers.local_folder.new_files.PAGE", 7)


@pytest.mark.usefixtures("_quiet_commits")
@pytest.mark.parametrize("mode", ["strict", "window"])
@pytest.mark.parametrize("identity", ["inode", "path"])
async def test_a_folder_on_a_mount_that_comes_and_goes(tmp_path: Path, identity: str, mode: str) -> None:
    outcomes = Counter[str]()
    for number in range(FOLDERS):
        place = Mount(root=tmp_path / str(number), identity=identity)
        history = History(place=place, mode=mode, dice=Random(SEED + number))
        await history.play()
        outcomes.update(history.outcome, kills=history.kills)
    log.info("%d histories of folders: %s", FOLDERS, dict(outcomes))
    assert [outcomes[each] for each in ("lost", "repeated", "silent", "endless")] == [0] * 4, (SEED, dict(outcomes))
    assert outcomes["masses"] > 0


@pytest.mark.usefixtures("_quiet_commits")
@pytest.mark.parametrize("mode", ["strict", "window"])
async def test_a_bucket_whose_listings_lie(mode: str) -> None:
    outcomes = Counter[str]()
    async with places() as place_of:
        for number in range(BUCKETS):
            with place_of() as place:
                history = History(place=place, mode=mode, dice=Random(SEED + number))
                await history.play()
                outcomes.update(history.outcome, kills=history.kills)
    log.info("%d histories of buckets: %s", BUCKETS, dict(outcomes))
    assert [outcomes[each] for each in ("lost", "repeated", "silent", "endless")] == [0] * 4, (SEED, dict(outcomes))


PATTERNS: Sequence[str | None] = (None, "[0-7]*", "*[0-9a]*.csv", "*[02468]*", "none")


@pytest.mark.usefixtures("_quiet_commits")
@pytest.mark.parametrize("mode", ["strict", "window"])
async def test_patterns_that_are_widened_and_narrowed(tmp_path: Path, mode: str) -> None:
    """What was handled stays handled, and in the end all that is there is reported, whatever was selected meanwhile."""
    outcomes = Counter[str]()
    for number in range(FOLDERS):
        place = Mount(root=tmp_path / str(number))
        history = History(place=place, mode=mode, dice=Random(SEED + number), patterns=PATTERNS)
        await history.play()
        outcomes.update(history.outcome, kills=history.kills, reloads=history.reloads)
    log.info("%d histories of patterns: %s", FOLDERS, dict(outcomes))
    assert (outcomes["lost"], outcomes["repeated"]) == (0, 0), (SEED, dict(outcomes))
    assert outcomes["reloads"] > FOLDERS


@asynccontextmanager
async def places() -> AsyncIterator[Callable[[], AbstractContextManager[Bucket]]]:
    """Make buckets, each behind the same server whose listings lie."""
    with running_s3() as server:
        async with faulty_s3(server, Faults(), page_size=25, seed=SEED) as front:
            settings = {"type": "s3", "endpoint_url": front.endpoint, "access_key_id": "a", "secret_access_key": "b"}
            async with S3Connection.model_validate(settings).open() as client:

                @contextmanager
                def made() -> Iterator[Bucket]:
                    with fresh_bucket(server) as name:
                        yield Bucket(server=server, client=client, name=name, front=front)

                yield made
