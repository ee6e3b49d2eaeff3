"""The first line of a CSV file that says something."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..errors import SourceFailed
from .request import S3File

_SEPARATOR = "\x1f"


@dataclass(frozen=True, kw_only=True)
class Header:
    names: Sequence[str]
    """What it must say; case does not matter."""
    dialect: Mapping[str, Any] = field(default_factory=dict)
    """For Python's csv."""
    comment: str | None = None
    """What lines begin with that say nothing."""

    def behind(self, texts: Iterable[bytes], file: S3File) -> Iterator[bytes]:
        """Of the lines of a file, or of a part of it, those behind its header, many at a time. Raises `SourceFailed`."""
        expected = file.has_start
        for lines in texts:
            rest = lines
            if expected:
                found = first_content(lines, self.comment)
                if found is None:
                    continue
                line, rest = found
                self._check(line, file)
                expected = False
            if rest:
                yield rest
        if expected and file.part is not None:
            raise SourceFailed(
                f"{file.url} has no header in its first {file.part[1]} bytes: take what is before it away"
            )

    def _check(self, line: str, file: S3File) -> None:
        found = header_of(line, self.dialect)
        if [name.lower() for name in found] != [name.lower() for name in self.names]:
            raise SourceFailed(
                f"{file.url} has the columns {', '.join(found)} where {', '.join(self.names)} are expected: "
                "correct the file or the schema"
            )


def header_of(line: str, dialect: Mapping[str, Any]) -> list[str]:
    separator = dialect.get("delimiter", ",")
    if len(separator) > 1:  # Python's csv has none of several characters
        line, dialect = line.replace(separator, _SEPARATOR), {**dialect, "delimiter": _SEPARATOR}
    return [name.strip() for name in next(csv.reader([line], **dialect))]


def first_content(lines: bytes, comment: str | None) -> tuple[str, bytes] | None:
    """The first line that is neither blank nor a comment, and what is behind it."""
    end = -1
    while end < len(lines):
        begin, end = end + 1, lines.find(b"\n", end + 1)
        end = len(lines) if end < 0 else end
        line = lines[begin:end]
        if line.strip() and not (comment and line.startswith(comment.encode())):
            return line.decode(), lines[end + 1 :]
    return None
