"""The sentence that says why a try on this machine ended: its exit record, with the end of its log."""

from __future__ import annotations

from dataclasses import dataclass
from os import SEEK_END
from pathlib import Path
from signal import Signals
from typing import BinaryIO, Final

from watcher.host.logs.reader import mark
from watcher.host.machine import LEAST_FREE, free_bytes
from watcher.submit.failure_reasons import MORE_MEMORY, TAIL, explain_log
from watcher.submit.local.folder import ExitRecord

CLAIMED_BY_ANOTHER: Final = 75
"""The SDK's exit code if another process has claimed the try (EX_TEMPFAIL)."""
_CHUNK: Final = 64 * 1024
_NO_SPACE: Final = "No space left on device"


def explain_exit(record: ExitRecord, log: Path) -> str:
    """One sentence about how the try ended, with the line of its log that says so; '' for a success."""
    if record.reason or record.exit_code == 0:
        return record.reason
    if record.stopped:
        return "the job was stopped on request"
    if record.exit_code == CLAIMED_BY_ANOTHER:
        return "another process had already claimed this try"
    if record.exit_code == 128 + Signals.SIGKILL:
        return f"the job was killed (SIGKILL); unless a person did that, {MORE_MEMORY}"
    return _explained(_ending(record), log)


def _explained(ending: str, log: Path) -> str:
    end, free = end_of(log), free_bytes(log.parent)
    reason = explain_log(end.text)
    lacks_space = reason is not None and _NO_SPACE in end.text.split("\n")[reason.line]
    if (reason is None or reason.guessed or lacks_space) and free is not None and free < LEAST_FREE:
        return f"{ending}; the disk is full below {log.parent}, where its log is: {free:,} bytes are free; free space there"
    if reason is None:
        return f"{ending} and logged nothing"
    if end.lines_before:
        mark(log, lines=end.lines_before, offset=end.offset)
    where = "; ".join(filter(None, (reason.place, f"log line {end.lines_before + reason.line + 1}")))
    sentence = f"{ending}; the last line of its log: {reason.sentence}" if reason.guessed else reason.sentence
    if lacks_space:
        sentence = f"{sentence}; its log is below {log.parent}"
    return f"{sentence} ({where})"


def _ending(record: ExitRecord) -> str:
    if record.signal is None:
        return f"the job ended with exit code {record.exit_code}"
    name = next((known.name for known in Signals if known == record.signal), f"signal {record.signal}")
    return f"the job was ended by {name}"


@dataclass(frozen=True, kw_only=True)
class LogEnd:
    """The end of a log, from the beginning of a line; that line's offset, and the number of lines before it."""

    text: str = ""
    lines_before: int = 0
    offset: int = 0


def end_of(log: Path) -> LogEnd:
    """Return the last `TAIL` bytes of the log in whole lines; nothing if the log cannot be read."""
    try:
        with log.open("rb") as file:
            skipped = max(file.seek(0, SEEK_END) - TAIL, 0)
            file.seek(0)
            lines = _lines_in(file, skipped)
            if lines:
                file.readline()
                lines += 1
            offset = file.tell()
            text = file.read(2 * TAIL).decode(errors="replace")
            return LogEnd(text=text, lines_before=lines, offset=offset)
    except OSError:
        return LogEnd()


def _lines_in(file: BinaryIO, size: int) -> int:
    """Count the lines that end in the next `size` bytes."""
    lines = 0
    while size > 0 and (chunk := file.read(min(size, _CHUNK))):
        lines += chunk.count(b"\n")
        size -= len(chunk)
    return lines
