"""Log files are read back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.effort import PATIENCE
from watcher.host.logs import reader
from watcher.host.logs.followers import Tail, follow
from watcher.host.logs.paths import remove
from watcher.host.logs.reader import around, around_line, as_text, fragment, last, mark, unfinished


def written(path: Path, *records: Any) -> Path:
    """Write a file with a line for each record or text."""
    lines = (record if isinstance(record, str) else json.dumps(record) for record in records)
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def numbered(path: Path, numbers: range) -> Path:
    return written(
        path, *({"event": "e", "write_id": f"<{number}>", "timestamp": f"{number:04}"} for number in numbers)
    )


def ids(records: Any) -> list[int]:
    return [int(record["write_id"].strip("<>")) for record in records]


@pytest.fixture(params=[1_048_576, 64], ids=["one block", "many blocks"])
def _blocks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read in small blocks, so that lines cross their borders."""
    monkeypatch.setattr(reader, "BLOCK", request.param)


@pytest.fixture
def rotated(tmp_path: Path, _blocks: None) -> list[Path]:
    """A log of thirty lines in three files."""
    return [numbered(tmp_path / f"{n}.log", range(n * 10, n * 10 + 10)) for n in range(3)]


@pytest.mark.parametrize(
    ("wanted", "before", "after", "found"),
    [
        (15, 2, 2, [13, 14, 15, 16, 17]),
        (10, 3, 1, [7, 8, 9, 10, 11]),
        (19, 1, 3, [18, 19, 20, 21, 22]),
        (0, 5, 1, [0, 1]),
        (29, 1, 5, [28, 29]),
        (12, 100, 100, list(range(30))),
        (12, 0, 0, [12]),
    ],
)
def test_lines_around_a_write_are_found_across_files(
    rotated: list[Path], wanted: int, before: int, after: int, found: list[int]
) -> None:
    records = around([[], rotated], f"<{wanted}>", before=before, after=after)

    assert records is not None
    assert ids(records) == found


def test_a_write_that_is_in_no_log_is_not_found(rotated: list[Path], tmp_path: Path) -> None:
    assert around([rotated], "<30>", before=1, after=1) is None
    assert around([[tmp_path / "missing.log"]], "<1>", before=1, after=1) is None
    assert around([], "<1>", before=1, after=1) is None


def test_the_last_lines_are_read_across_files(rotated: list[Path]) -> None:
    assert ids(last([rotated], 12)) == list(range(18, 30))
    assert ids(last([rotated], 100)) == list(range(30))
    assert last([rotated], 0) == []
    assert last([], 5) == []


def test_the_last_lines_of_several_processes_are_in_order_of_time(tmp_path: Path) -> None:
    one = written(tmp_path / "1.log", *({"event": "e", "timestamp": f"{n:04}", "write_id": str(n)} for n in (1, 4, 5)))
    two = written(tmp_path / "2.log", *({"event": "e", "timestamp": f"{n:04}", "write_id": str(n)} for n in (2, 3, 6)))

    assert ids(last([[one], [two]], 4)) == [3, 4, 5, 6]
    assert last([[one], [two]], 0) == []


def test_a_line_that_is_not_a_record_is_shown_as_an_event(tmp_path: Path) -> None:
    path = tmp_path / "1.log"
    odd = ["  indented", "[1]", '{"no": "event"}', '{"event": 1}', "{", '{"event": "x", "n": NaN}', "[" * 100_000]
    path.write_bytes(b"\xff\xfe\n\n" + "\n".join(odd).encode() + b"\nno end")

    found = last([[path]], 100)

    assert [record["event"] for record in found][:6] == ["\ufffd\ufffd", *odd[:5]]
    assert found[6] == {"event": "x", "n": "NaN"}
    assert found[-1] == {"event": "no end"}


def test_endless_lines_are_cut_into_pieces(tmp_path: Path) -> None:
    path = tmp_path / "1.log"
    path.write_text("x" * 3_000_000 + "\nlast\n")

    assert [record["event"] for record in last([[path]], 1)] == ["last"]
    assert all(len(record["event"]) <= 65_536 for record in fragment(path, 0, 1000).records)
    assert max(len(record["event"]) for record in last([[path]], 10)) < 2_000_000


@pytest.mark.usefixtures("_blocks")
def test_fragments_join_without_gap_or_repetition(tmp_path: Path) -> None:
    path = numbered(tmp_path / "1.log", range(25))
    found, offset = [], 0
    while offset is not None:
        part = fragment(path, offset, 10)
        found += ids(part.records)
        offset = part.next_offset

    assert found == list(range(25))
    assert fragment(path, 10**9, 10).records == []
    assert fragment(tmp_path / "missing.log", 0, 10).next_offset is None


def test_announced_writes_without_confirmation_are_found() -> None:
    records = [
        {"event": "store.writing", "write_id": "a"},
        {"event": "store.written", "write_id": "a"},
        {"event": "store.writing", "write_id": "b"},
        {"event": "store.written", "write_id": "c"},
        {"event": "store.writing"},
        {"event": "store.writing", "write_id": ["odd"]},
        {"event": "other", "write_id": "d"},
    ]

    assert unfinished(records) == {"b"}


def test_a_tail_shows_new_whole_lines_and_survives_rotation(tmp_path: Path) -> None:
    current = written(tmp_path / "me.log", {"event": "old"})
    tail = Tail(lambda: [sorted(tmp_path.glob("*.log"))])

    def new() -> list[str]:
        return [record["event"] for record in tail.read()]

    assert new() == []
    with current.open("a") as file:
        file.write('{"event": "one"}\nhalf')
    assert new() == ["one"]
    with current.open("a") as file:
        file.write(" line\nbefore rotation\n")
    current.rename(tmp_path / "me.20261120.log")
    written(current, {"event": "after rotation"})
    assert new() == ["half line", "before rotation", "after rotation"]
    assert new() == []
    written(current, "truncated")
    assert new() == ["truncated"]
    current.unlink()
    assert new() == []


@pytest.mark.usefixtures("_blocks")
def test_a_tail_catches_up_in_steps(tmp_path: Path) -> None:
    tail = Tail(lambda: [[tmp_path / "1.log"]])
    numbered(tmp_path / "1.log", range(100))

    found = []
    while new := tail.read():
        found += new

    assert ids(found) == list(range(100))


async def test_following_ends_when_it_is_stopped(tmp_path: Path) -> None:
    stopping = anyio.Event()
    tail = Tail(lambda: [[tmp_path / "1.log"]])
    written(tmp_path / "1.log", "one")
    seen = []
    with anyio.fail_after(PATIENCE):
        async for records in follow(tail, stopping):
            seen += [record["event"] for record in records]
            stopping.set()

    assert seen == ["one"]


def test_records_are_formatted_for_people() -> None:
    record = {"timestamp": "T", "level": "info", "event": "store.writing", "key": "k", "rolled_back": True}
    assert as_text(record) == "T info store.writing key=k (rolled back)"
    assert as_text({"event": "plain  text"}) == "plain  text"
    assert as_text({"event": "failed", "exception": "Traceback\n  x"}) == "failed\nTraceback\n  x"


def test_lines_about_a_numbered_subject_are_found(tmp_path: Path) -> None:
    path = tmp_path / "1.log"
    path.write_text("".join("\n" if number % 10 == 0 else f"line {number}\n" for number in range(1, 200_001)))
    for number in (1, 9, 55, 123_456, 199_999):
        lines = around_line(path, number, before=2, after=2)
        assert dict(lines)[number]["event"] == f"line {number}"
        assert [place for place, _ in lines] == [
            n for n in range(max(number - 2, 1), number + 3) if n % 10 and n <= 200_000
        ]
    assert around_line(path, 300_000, before=2, after=2) == []
    assert around_line(tmp_path / "none.log", 5, before=2, after=2) == []


def test_a_line_after_the_mark_is_found_without_reading_what_precedes_it(tmp_path: Path) -> None:
    """The link in a failed run's reason leads to such a line. Here the part before it does not even exist."""
    path = tmp_path / "runs" / "1.log"
    path.parent.mkdir()
    with path.open("wb") as file:
        file.seek(10**12)
        file.write(b"".join(b"line %d\n" % number for number in range(9_000_001, 9_000_501)))
    mark(path, lines=9_000_000, offset=10**12)
    lines = around_line(path, 9_000_123, before=2, after=1)
    assert [(place, record["event"]) for place, record in lines] == [
        (number, f"line {number}") for number in range(9_000_121, 9_000_125)
    ]
    assert [place for place, _ in around_line(path, 9_000_001, before=2, after=1)] == [9_000_001, 9_000_002]
    assert remove([path]) == 1
    assert list(path.parent.iterdir()) == []
