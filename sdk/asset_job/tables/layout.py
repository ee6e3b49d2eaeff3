"""Where the rows of a run lie. Pure."""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from ..backends import TaskScope
from ..errors import AssetJobError, TargetFailed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

STAGING = "_staging"
OWNER = "_run.json"
RUN = "run"
NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
_UNSAFE = re.compile(r"[\x00-\x1f\x7f\"#%'*/:=?\\{}\[\]^]")
"""Spark escapes these in the name of a partition's folder, and reads them back."""


@dataclass(frozen=True, kw_only=True)
class Owner(TaskScope):
    """Whose part it is: the tries of one task instance share it."""

    @property
    def part(self) -> str:
        """The name of the part's folder. Colons are what Hadoop cannot have in a path, slashes what nobody can."""
        return f"{RUN}={re.sub('[:/]', '.', self.run_id)}"

    def check(self, recorded: Mapping[str, object] | None, target: str) -> None:
        """`recorded` is the owner that the part names. Raises `TargetFailed` when it is another run's."""
        if recorded is not None and {**asdict(self), **recorded} != asdict(self):
            raise TargetFailed(
                f"{self.part} of {target} was written by the job {recorded.get('dag_id')}, run {recorded.get('run_id')}: "
                "give each job a target of its own"
            )


@dataclass(frozen=True, kw_only=True)
class Place:
    """A table's root: a folder of this machine, or a prefix of a bucket."""

    bucket: str | None
    path: str
    """Without a slash at its end; of a bucket, without one at its beginning."""

    def __str__(self) -> str:
        return self.path if self.bucket is None else f"s3://{self.bucket}/{self.path}"

    def inside(self, *names: str) -> str:
        return "/".join(filter(None, (self.path, *names)))


@dataclass(frozen=True, kw_only=True)
class Table(ABC):
    """One try's way to its run's part of a table."""

    place: Place
    owner: Owner
    attempt: str
    """Unique to this try."""

    @abstractmethod
    def others(self, spark: SparkSession, columns: Mapping[str, str], partition_by: Sequence[str]) -> DataFrame | None:
        """What other runs hold in these columns (name -> Spark's type); None when there is nothing."""

    @abstractmethod
    def prepare(self) -> None:
        """What earlier tries of the run left behind is removed. Raises `TargetFailed`."""

    @abstractmethod
    def stage(self, frame: DataFrame, partition_by: Sequence[str]) -> None:
        """Write where readers do not look."""

    @abstractmethod
    def commit(self, rows: int) -> None:
        """What was staged, so many rows, becomes the run's part."""

    @abstractmethod
    def withdraw(self) -> None:
        """Without rows: the run has no part, whatever it had before."""

    @property
    def part(self) -> str:
        return self.place.inside(self.owner.part)

    @property
    def attempts(self) -> str:
        return self.place.inside(STAGING, self.owner.part)

    @property
    def staged(self) -> str:
        return f"{self.attempts}/{self.attempt}"


def place_of(target: str, outlets: Mapping[str, str]) -> Place:
    """Of an outlet's name, a `file:` or `s3:` URL, or an absolute path. `outlets`: name -> uri. Raises `TargetFailed`."""
    uri = outlets.get(target, target)
    url = urlsplit(uri)
    if url.scheme in {"s3", "s3a"} and url.netloc:
        return Place(bucket=url.netloc, path=uri.partition("://")[2].partition("/")[2].strip("/"))
    if url.scheme == "file" and url.netloc in {"", "localhost"} and url.path.strip("/"):
        return Place(bucket=None, path=_folder(unquote(url.path)))
    if uri.startswith("/") and uri.strip("/"):
        return Place(bucket=None, path=_folder(uri))
    if target in outlets:
        raise TargetFailed(
            f"the outlet {target} has the uri {uri}, where no table can be written: give it one that begins "
            "with file: or s3:, or name another target"
        )
    raise TargetFailed(f"{target!r} is neither an outlet of this job nor an absolute path, a file: or an s3: URL")


def _folder(path: str) -> str:
    """One spelling of each: a run has one part of a table, however it names it."""
    return "/" + os.path.normpath(path).lstrip("/")


def partition_folder(columns: Sequence[str], values: Sequence[str | None]) -> str:
    """`day=2026-11-20/city=K%2FK`, as Spark names it."""
    return "/".join(
        f"{_escaped(name)}={_escaped(value) if value else NO_VALUE}"
        for name, value in zip(columns, values, strict=True)
    )


def _escaped(text: str) -> str:
    return _UNSAFE.sub(lambda match: f"%{ord(match[0]):02X}", text)


def partition_values(path: str) -> dict[str, str | None]:
    """By name, of the folders that a file's path leads through."""
    parts = [part.partition("=") for part in path.split("/")[:-1]]
    return {unquote(name): None if value == NO_VALUE else unquote(value) for name, equals, value in parts if equals}


def is_of_another_run(path: str, part: str) -> bool:
    """Whether a file of the table, by its path inside of it, holds rows, and not of this run's part."""
    folders = path.split("/")
    hidden = any(folder.startswith(("_", ".")) for folder in folders)
    return not hidden and folders[0] != part and folders[0].startswith(f"{RUN}=")


def check_columns(columns: Sequence[str], partition_by: Sequence[str]) -> None:
    """Raises `AssetJobError` for a table that could not be read back."""
    lower = [name.lower() for name in columns]
    if RUN in lower:
        raise AssetJobError(f"a column is called {RUN!r}, as the folder of each run's part: rename it")
    lacking = [name for name in partition_by if name.lower() not in lower]
    if lacking:
        raise AssetJobError(f"partition_by names {', '.join(lacking)}, but the columns are {', '.join(columns)}")
    if len(partition_by) >= len(columns):
        raise AssetJobError("partition_by names all columns: leave one for the files")


@dataclass(frozen=True, kw_only=True)
class StagedFile:
    """What one task wrote, relative to the try's staging folder and, once committed, to the run's part."""

    path: str
    rows: int
