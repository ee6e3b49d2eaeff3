"""Spark's own readers: local files, and S3 through s3a."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from ..errors import SourceFailed
from .items import LocalFile
from .request import Reading

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def local_files(reading: Reading, files: Sequence[LocalFile]) -> DataFrame:
    """Looked at once, before Spark reads them: local files have no versions to hold on to."""
    found = []
    for file in dict.fromkeys(files):
        fault = _fault_of(file)
        if fault is None:
            found.append(file.path)
        elif reading.missing == "fail":
            raise SourceFailed(f"{file.path} {fault}; put it back and retry the run, or read with missing='skip'")
    return by_spark(reading, found)


def by_spark(reading: Reading, paths: Sequence[str]) -> DataFrame:
    if not paths:
        return reading.nothing()
    kind = reading.format_of(paths)
    options = {**_csv_defaults(reading), **reading.options} if kind == "csv" else reading.options
    reader = reading.spark.read.format(kind).options(**options)
    if reading.schema is not None and kind != "text":
        reader = reader.schema(reading.schema)
    return reader.load([_seen_path(path) for path in paths])


def _csv_defaults(reading: Reading) -> dict[str, bool]:
    """With a schema a header that says otherwise is an error, not ignored."""
    return {"header": True, "inferSchema": True} if reading.schema is None else {"header": True, "enforceSchema": False}


def _seen_path(path: str) -> str:
    """Spark leaves out what it holds for hidden without a word."""
    if PurePosixPath(path).name.startswith(("_", ".")):
        raise SourceFailed(f"{path} cannot be read: to Spark names that begin with _ or . are hidden; rename the file")
    return literal_path(path)


def literal_path(path: str) -> str:
    """Spark takes some characters for patterns."""
    return re.sub(r"([\[\]{}*?\\])", r"\\\1", path)


def _fault_of(file: LocalFile) -> str | None:
    try:
        size = Path(file.path).stat().st_size
    except FileNotFoundError:
        return "was deleted since it was detected"
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    return "was overwritten since it was detected" if file.size not in {None, size} else None
