"""A moment is found in a log, and of a large log only the shown part is read."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watcher.host.logs import moments
from watcher.host.logs.paths import rotated
from watcher.host.logs.reader import around, at_moment, last

BEGIN = datetime(2026, 11, 20, 9, tzinfo=UTC)
MB = 1_000_000
GB = 1000 * MB


def moment(seconds: float) -> datetime:
    return BEGIN + timedelta(seconds=seconds)


def record(seconds: float, **fields: Any) -> str:
    """Return a record as the daemon writes it."""
    time = moment(seconds).isoformat().replace("+00:00", "Z")
    return json.dumps({"timestamp": time, "level": "info", "event": "e", "n": seconds, **fields}) + "\n"


def numbers(records: Sequence[Any] | None) -> list[float]:
    return [record["n"] for record in records or ()]


@pytest.mark.parametrize("block", [64, 65_536])
@given(
    seconds=st.lists(st.floats(0, 5).map(lambda number: round(number, 1)), max_size=8).map(sorted),
    output=st.sampled_from(
        ["", "a driver's line\n", "x" * 200 + "\n", 'half of {"timestamp": "2026-11-20T09:00:09Z"}\n']
    ),
    at=st.floats(-1, 6).map(lambda number: round(number, 1)),
)
def test_the_first_record_that_is_not_older_is_found(
    block: int, seconds: list[float], output: str, at: float, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "1.log"
    path.write_text("".join(record(second) + output for second in seconds))
    with pytest.MonkeyPatch.context() as patch, path.open("rb") as file:
        patch.setattr(moments, "_BLOCK", block)
        file.seek(moments.offset_at(file, moment(at), path.stat().st_size))
        rest = [json.loads(line)["n"] for line in file if line.startswith(b"{")]
    assert rest == [second for second in seconds if second >= at]


def test_lines_at_a_moment_are_found_across_files_and_processes(tmp_path: Path) -> None:
    logs = []
    for owner in range(2):
        paths = [tmp_path / f"{owner}.{part}.log" for part in range(3)]
        for part, path in enumerate(paths):
            path.write_text("".join(record(n) for n in range(part * 10 + owner, part * 10 + 10, 2)))
        logs.append(paths)

    def shown(seconds: float, logs: Sequence[Sequence[Path]] = logs) -> tuple[list[float], ...]:
        return tuple(map(numbers, at_moment(logs, moment(seconds), before=3, after=2)))

    assert shown(10) == ([7, 8, 9], [10, 11])
    assert shown(14.5, logs[:1]) == ([10, 12, 14], [16, 18])
    assert shown(-5) == ([], [0, 1])
    assert shown(99) == ([27, 28, 29], [])
    assert shown(1, []) == ([], [])
    elsewhere = moment(10).astimezone(timezone(timedelta(hours=5)))
    assert numbers(at_moment(logs, elsewhere, before=0, after=1)[1]) == [10]


def test_a_write_is_found_even_if_clocks_are_wrong(tmp_path: Path) -> None:
    path = tmp_path / "1.log"
    path.write_text("".join(record(n, write_id=f"w{n}") for n in range(0, 1000, 10)))
    for wrong in (0, 30, 500, -900, 10**6):
        records = around([[path]], "w500", before=1, after=1, near=moment(500 + wrong))
        assert numbers(records) == [490, 500, 510]
    assert around([[path]], "w505", before=1, after=1, near=moment(505)) is None


@pytest.fixture
def huge(tmp_path: Path) -> Iterator[Path]:
    """A log of a gigabyte: a record in each megabyte, and holes between them, which take no space on the disk."""
    path = tmp_path / "me.log"
    with path.open("wb") as file:
        for number in range(1000):
            file.seek(number * MB)
            file.write(b"\n" + record(number, write_id=f"<{number}>").encode())
        file.seek(GB)
        file.write(b"\n" + "".join(record(n, write_id=f"<{n}>") for n in range(1000, 1200)).encode())
    yield path
    path.unlink()


@contextmanager
def reading_at_most(size: int) -> Iterator[None]:
    """Check that the block reads at most this many bytes, as the operating system counts them for this process."""
    before = bytes_read()
    yield
    assert bytes_read() - before <= size


def bytes_read() -> int:
    fields = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(fields["rchar"])


@pytest.mark.skipif(not os.path.exists("/proc/self/io"), reason="Linux counts them")  # noqa: PTH110
@pytest.mark.parametrize(
    "look",
    [
        lambda log: last([log], 100),
        lambda log: around([log], "<1100>", before=50, after=50, near=moment(1100)),
        lambda log: around([log], "<500>", before=2, after=2, near=moment(520)),
        lambda log: at_moment([log], moment(1150), before=50, after=50),
        lambda log: at_moment([log], moment(300), before=2, after=2),
    ],
)
def test_only_the_shown_part_of_a_gigabyte_is_read(huge: Path, look: Callable[[list[Path]], Any]) -> None:
    aside = rotated(huge, "20261120T090000000000")
    huge.rename(aside)
    huge.write_text(record(1200))
    with reading_at_most(GB // 5):
        assert look([aside, huge])
