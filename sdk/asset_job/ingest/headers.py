"""Of CSV files whose columns are to be inferred: what is refused because nobody means it."""

from __future__ import annotations

import bz2
import csv
import gzip
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import PurePosixPath
from typing import IO, Any

from ..errors import AssetJobError

_SEPARATORS = ";\t|"
_OPENERS: Mapping[str, Callable[..., IO[Any]]] = {".gz": gzip.open, ".bz2": bz2.open}


def check_header(files: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> None:
    """Raises `AssetJobError` for a name that comes twice, and for fields that are not separated by commas.

    `columns` are as they were inferred: of local files Spark has renamed those that come twice, so their own lines count.
    """
    for file in files:
        if "path" not in file and file.get("size"):
            return _check(columns, f"s3://{file['bucket']}/{file['key']}")
        with suppress(KeyError, OSError, EOFError):  # Spark says it better
            if names := _names_in(file["path"]):
                return _check(names, file["path"])
    return None


def _check(names: Sequence[str], place: str) -> None:
    twice = [name for name, count in Counter(name.lower() for name in names).items() if count > 1]
    if twice:
        raise AssetJobError(f"{place} has the column {twice[0]!r} more than once: rename it in the first line")
    separator = next((mark for mark in _SEPARATORS if mark in "".join(names[:1])), None)
    if len(names) == 1 and separator:
        raise AssetJobError(
            f"{place} has the one column {names[0]!r}: have it written with commas, or read it in a job of your own by "
            f"r.read(…, sep={separator!r})"
        )


def _names_in(path: str) -> list[str]:
    """Of the first line that says something; none where there is no such line."""
    opener = _OPENERS.get(PurePosixPath(path).suffix.lower(), open)
    with opener(path, "rt", encoding="utf-8-sig", errors="replace", newline="") as lines:
        line = next((line for line in lines if line.strip()), "")
    return [name.strip() for name in next(csv.reader([line.rstrip("\r\n")]), [])]
