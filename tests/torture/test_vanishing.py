"""Random histories of sources as people have them: mounts that come and go, listings that lie, files that people move.

Each history has a real folder, or a bucket behind an S3 server that lists too little without a sign, and the real trigger. In
each the place is lost and comes back, is copied to another disk and put back, files are written, overwritten, deleted, moved
out and in, patterns are widened and narrowed, and the watcher is killed before and after any of its commits.

Every version that is there in the end was reported, or is a copy about which a person decided. None was reported twice, but
for what docs/files.md says: what was moved out and in, and few copies. While all is gone, and only then, people are shown that
many files vanished, or until they are forgotten where a copy took their place. Many copies always wait for a person, and his
decision ends it.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, closing, contextmanager
from itertools import count
from pathlib import Path
from random import Random

import pytest

from tests.effort import SEED, effort
from tests.faulty_s3 import Faults, faulty_s3
from tests.servers import fresh_bucket, running_s3
from tests.torture.file_histories import History
from tests.torture.lying_bucket import Bucket
from tests.torture.places import Mount, may_mount
from triggers.s3.connection import S3Connection

log = logging.getLogger(__name__)
pytestmark = pytest.mark.service

FOLDERS, BUCKETS = effort(10, 200), effort(2, 200)
PATTERNS: Sequence[str | None] = (None, "[0-7]*", "*[0-9a]*.csv", "*[02468]*", "none")
HAPPENED = ("masses", "copied", "kills", "reloads")
"""What must have happened to a folder in the histories together: they go on until then."""
WRONG = ("lost", "repeated", "silent", "endless", "unasked", "again")


def set_about(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let quiet commits come at once in half of the histories. In the others, which take a second each, they never come."""
    monkeypatch.setattr("triggers.file_scan.scanner.QUIET_COMMIT_SECONDS", 60.0 * (number % 2))
    monkeypatch.setattr("triggers.local_folder.new_files.PAGE", 7)


@pytest.mark.parametrize("mode", ["strict", "window"])
async def test_a_folder_on_a_mount_that_comes_and_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """Inode numbers count in every other pair of them. Half are mounts, which only root may make; the others are renamed away."""
    outcomes, numbers = Counter[str](), count()
    while outcomes["histories"] < FOLDERS or not all(outcomes[each] for each in HAPPENED):
        number = next(numbers)
        set_about(number, monkeypatch)
        binds, identity = number % 8 >= 4 and may_mount(), ("inode", "path")[number // 2 % 2]
        with closing(Mount(root=tmp_path / str(number), identity=identity, binds=binds)) as place:
            history = History(place=place, mode=mode, dice=Random(SEED + number), patterns=PATTERNS)
            await history.play()
            outcome = history.outcome
        outcomes.update(outcome, mounts=binds, histories=1)
        assert number < 20 * FOLDERS, outcomes
        assert not any(outcome[each] for each in WRONG), (SEED, number, outcome)
    log.info("histories of folders, %s: %s", mode, dict(outcomes))


@pytest.mark.parametrize("mode", ["strict", "window"])
async def test_a_bucket_whose_listings_lie(monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    outcomes = Counter[str]()
    async with places() as place_of:
        for number in range(BUCKETS):
            set_about(number, monkeypatch)
            with place_of() as place:
                history = History(place=place, mode=mode, dice=Random(SEED + number), patterns=PATTERNS)
                await history.play()
                outcome = history.outcome
            outcomes.update(outcome)
            assert not any(outcome[each] for each in WRONG), (SEED, number, outcome)
    log.info("%d histories of buckets, %s: %s", BUCKETS, mode, dict(outcomes))


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
                        bucket = Bucket(server=server, client=client, name=name, front=front)
                        yield bucket
                        bucket.close()

                yield made
