"""The copy of a driver's log: each line once, whatever the node answers again, and wherever a copy was interrupted."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from watcher.features.kubernetes.pod_log import CopiedLog, CopiedUpTo, CopyPace, new_lines


def line(moment: int, text: str) -> bytes:
    return f"2026-11-26T12:00:{moment // 10:02}.{moment % 10}00000000Z {text}\n".encode()


def copied_log(folder: Path) -> CopiedLog:
    return CopiedLog(folder / "1.driver.log", folder / "1.driver.copied")


@given(
    moments=st.lists(st.integers(0, 40), max_size=30).map(sorted),
    reads=st.lists(st.integers(0, 30), max_size=8).map(sorted),
)
def test_each_line_is_copied_once_in_order(moments: list[int], reads: list[int]) -> None:
    lines = [line(moment, f"line {number}") for number, moment in enumerate(moments)]
    copied, content = CopiedUpTo(), b""
    for known in [*reads, len(lines)]:
        second = copied.timestamp[:19].encode()
        answer = b"".join(each for each in lines[:known] if each[:19] >= second)
        new = new_lines(answer, copied)
        content += new.content
        copied = CopiedUpTo(size=0, timestamp=new.timestamp, lines=new.lines)
    assert content == b"".join(each.partition(b" ")[2] for each in lines)


def test_an_unfinished_line_is_copied_when_it_is_whole() -> None:
    answer = line(1, "a") + line(2, "unfinished")[:-1]
    assert new_lines(answer, CopiedUpTo()).content == b"a\n"


def test_lines_that_the_node_has_removed_are_named(tmp_path: Path) -> None:
    log = copied_log(tmp_path)
    log.add(line(1, "a"))
    log.add(line(300, "z"))
    first, gap, last = log.file.read_text().splitlines()
    assert (first, last) == ("a", "z")
    assert "lines before this one are missing" in gap


def test_a_copy_that_was_interrupted_goes_on_without_a_repetition(tmp_path: Path) -> None:
    log = copied_log(tmp_path)
    log.add(line(1, "a"))
    before = log.state.read_bytes()
    log.add(line(1, "a") + line(2, "b"))
    log.state.write_bytes(before)  # it was killed before it recorded how far it was
    log.note_lost("its node is gone")
    assert "could not be read: its node is gone" in log.file.read_text()
    copied = log.add(line(1, "a") + line(2, "b") + line(3, "c"))
    assert log.file.read_text() == "a\nb\nc\n"
    assert log.add(line(3, "c")) == copied == log.read_state()


def test_a_log_that_nobody_reads_is_asked_for_less_and_less_often() -> None:
    pace, copies = CopyPace(), list[int]()
    for second in range(150):
        if pace.is_due(second):
            pace.note(second)
            copies.append(second)
    assert copies == [0, 2, 6, 14, 30, 60, 90, 120]


def test_a_log_that_somebody_reads_is_copied_every_two_seconds() -> None:
    pace = CopyPace(pause=30.0)
    pace.note(600.0)
    assert not pace.is_due(603.0)
    pace.read_at = 602.0
    assert pace.is_due(603.0)
    pace.note(603.0)
    assert not pace.is_due(604.0)
    assert pace.is_due(605.0)
