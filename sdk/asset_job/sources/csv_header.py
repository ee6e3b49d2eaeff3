"""Check the header of a CSV file, which is its first line that is neither blank nor a comment."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from asset_job.errors import SourceFailed
from asset_job.sources.request import S3File

_SEPARATOR = "\x1f"


@dataclass(frozen=True, kw_only=True)
class Header:
    """The header that each CSV file must have."""

    names: Sequence[str]
    """The expected names, without regard to case."""
    dialect: Mapping[str, Any] = field(default_factory=dict)
    """The parameters for Python's csv."""
    comment: str | None = None
    """How lines begin that are comments."""

    def after(self, texts: Iterable[bytes], file: S3File) -> Iterator[bytes]:
        """The lines after the header, of a file or a part of it, many at a time. Raises `SourceFailed` for another header."""
        expected = file.has_start
        for lines in texts:
            rest = lines
            if expected:
                content = first_content(lines, self.comment)
                if content is None:
                    continue
                line, rest = content
                self._check(line, file)
                expected = False
            if rest:
                yield rest
        if expected and file.part is not None:
            raise SourceFailed(
                f"{file.url} has no header in its first {file.part[1]} bytes: remove what comes before the header"
            )

    def _check(self, line: str, file: S3File) -> None:
        names = header_of(line, self.dialect)
        if [name.lower() for name in names] != [name.lower() for name in self.names]:
            raise SourceFailed(
                f"{file.url} has the columns {', '.join(names)} where {', '.join(self.names)} are expected: "
                "correct the file or the schema"
            )


def header_of(line: str, dialect: Mapping[str, Any]) -> list[str]:
    """The names in a header's line."""
    separator = dialect.get("delimiter", ",")
    if len(separator) > 1:  # Python's csv takes a single character only
        line, dialect = line.replace(separator, _SEPARATOR), {**dialect, "delimiter": _SEPARATOR}
    return [name.strip() for name in next(csv.reader([line], **dialect))]


def first_content(lines: bytes, comment: str | None) -> tuple[str, bytes] | None:
    """The first line that is neither blank nor a comment, and what follows it; None if there is no such line."""
    end = -1
    while end < len(lines):
        begin, end = end + 1, lines.find(b"\n", end + 1)
        end = len(lines) if end < 0 else end
        line = lines[begin:end]
        if line.strip() and not (comment and line.startswith(comment.encode())):
            return line.decode(), lines[end + 1 :]
    return None
