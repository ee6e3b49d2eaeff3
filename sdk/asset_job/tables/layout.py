"""The layout of a table: where each run's rows are stored. Pure."""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, ClassVar
from urllib.parse import unquote, urlsplit

from asset_job.backends import TaskScope
from asset_job.errors import AssetJobError, TargetFailed
from asset_job.sources.partition_folders import NO_VALUE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

STAGING = "_staging"
OWNER = "_run.json"
RUN = "run"
UNSAFE = re.compile(r"[\x00-\x1f\x7f\"#%'*/:=?\\{}\[\]^]")
"""The characters that Spark escapes in the name of a partition's folder and unescapes when it reads."""


@dataclass(frozen=True, kw_only=True)
class Owner(TaskScope):
    """The task instance that owns a part of a table. All its tries share the part."""

    @property
    def part(self) -> str:
        """The name of the part's folder. It has dots for colons, which Hadoop does not allow in a path, and for slashes."""
        return f"{RUN}={re.sub('[:/]', '.', self.run_id)}"

    def check(self, recorded: Mapping[str, object] | None, target: str) -> None:
        """Raise `TargetFailed` if `recorded`, the owner that the part names, is another run."""
        if recorded is not None and {**asdict(self), **recorded} != asdict(self):
            raise TargetFailed(
                f"{self.part} of {target} was written by the job {recorded.get('dag_id')}, run {recorded.get('run_id')}: "
                "give each job a target of its own"
            )


@dataclass(frozen=True, kw_only=True)
class TableLocation:
    """The root of a table: a folder on this machine, or a prefix in a bucket."""

    bucket: str | None
    """None: `path` is a folder."""
    path: str
    """A path without a slash at its end; in a bucket also without one at its beginning."""

    def __str__(self) -> str:
        return self.path if self.bucket is None else f"s3://{self.bucket}/{self.path}"

    def inside(self, *names: str) -> str:
        """The path of something below this location, without the bucket."""
        return "/".join(filter(None, (self.path, *names)))


@dataclass(frozen=True, kw_only=True)
class TargetTable(ABC):
    """A table as one try writes it: the try replaces the part that belongs to its run.

    `prepare` comes first, then `stage` if there are rows, then `commit` or `commit_empty`.
    """

    format: ClassVar[str] = "parquet"

    location: TableLocation
    owner: Owner
    attempt: str
    """A text that is unique to this try."""

    @abstractmethod
    def rows_of_other_runs(
        self, spark: SparkSession, columns: Mapping[str, str], partition_by: Sequence[str]
    ) -> DataFrame | None:
        """The rows of all other runs, in these columns (name -> Spark's type); None if there are none.

        `partition_by` names the columns that the table is partitioned by.
        """

    @abstractmethod
    def prepare(self) -> None:
        """Check the target, and remove what earlier tries of the run left behind. Raises `TargetFailed`."""

    @abstractmethod
    def stage(self, frame: DataFrame, partition_by: Sequence[str]) -> None:
        """Write the frame where readers do not look."""

    @abstractmethod
    def commit(self, rows: int) -> str | None:
        """Make what was staged the run's part, and return the commit. `rows` were staged. Raises `TargetFailed`.

        None: the format has no commits, or an earlier call's has taken effect.
        """

    @abstractmethod
    def commit_empty(self) -> str | None:
        """Commit a try without rows, so that the run has no part any more; return what `commit` returns."""

    @property
    def part(self) -> str:
        """The path of the run's part."""
        return self.location.inside(self.owner.part)

    @property
    def attempts(self) -> str:
        """The path below which all tries of the run stage."""
        return self.location.inside(STAGING, self.owner.part)

    @property
    def staged(self) -> str:
        """The path below which this try stages."""
        return f"{self.attempts}/{self.attempt}"


def location_of(target: str, outlets: Mapping[str, str]) -> TableLocation:
    """The location that a target names: an outlet's name, a `file:` or `s3:` URL, or an absolute path.

    `outlets`: name -> uri. Raises `TargetFailed`.
    """
    uri = outlets.get(target, target)
    url = urlsplit(uri)
    if url.scheme in {"s3", "s3a"} and url.netloc:
        return TableLocation(bucket=url.netloc, path=uri.partition("://")[2].partition("/")[2].strip("/"))
    if url.scheme == "file" and url.netloc in {"", "localhost"} and url.path.strip("/"):
        return TableLocation(bucket=None, path=_folder(unquote(url.path)))
    if uri.startswith("/") and uri.strip("/"):
        return TableLocation(bucket=None, path=_folder(uri))
    if target in outlets:
        raise TargetFailed(
            f"the outlet {target} has the uri {uri}, where no table can be written: give it a uri that begins "
            "with file: or s3:, or name another target"
        )
    raise TargetFailed(
        f"{target!r} is neither an outlet of this job nor an absolute path, a file: or an s3: URL: name one of these"
    )


def _folder(path: str) -> str:
    """The normalized path of a folder, so that a run has one part of a table however it spells the path."""
    return "/" + os.path.normpath(path).lstrip("/")


def partition_folder(columns: Sequence[str], values: Sequence[str | None]) -> str:
    """The folder of a partition as Spark names it, such as `day=2026-11-20/city=K%2FK`."""
    return "/".join(
        f"{_escaped(name)}={_escaped(value) if value else NO_VALUE}"
        for name, value in zip(columns, values, strict=True)
    )


def _escaped(text: str) -> str:
    return UNSAFE.sub(lambda match: f"%{ord(match[0]):02X}", text)


def partition_aliases(columns: Sequence[str], partition_by: Sequence[str]) -> list[str]:
    """Names, which no column has, for the texts of the columns to partition by while a frame is written."""
    prefix = "_partition_"
    while any(name.lower().startswith(prefix) for name in columns):
        prefix = f"_{prefix}"
    return [f"{prefix}{at}" for at in range(len(partition_by))]


def is_of_another_run(path: str, part: str) -> bool:
    """Whether a file holds rows of another run than the one that owns `part`. `path` is relative to the table."""
    folders = path.split("/")
    hidden = any(folder.startswith(("_", ".")) for folder in folders)
    return not hidden and folders[0] != part and folders[0].startswith(f"{RUN}=")


def check_names(names: Sequence[str], of: str) -> None:
    """Raise `TargetFailed` if readers could not tell these names apart. `of` says in the sentence what has them."""
    twice = [name for name, count in Counter(name.lower() for name in names).items() if count > 1]
    if twice:
        raise TargetFailed(f"several {of} are named {twice[0]!r}, apart from upper and lower case: rename all but one")
    if any(not name or "\0" in name for name in names):
        raise TargetFailed(f"one of the {of} has a name that is empty or contains the character 0: rename it")


def check_columns(columns: Sequence[str], partition_by: Sequence[str]) -> None:
    """Raise `AssetJobError` if a table with these columns could not be read back."""
    check_names(columns, "columns")
    check_names(partition_by, "columns of partition_by")
    lower = [name.lower() for name in columns]
    if RUN in lower:
        raise AssetJobError(f"a column is named {RUN!r}, like the folders of the runs' parts: rename the column")
    lacking = [name for name in partition_by if name.lower() not in lower]
    if lacking:
        raise AssetJobError(
            f"partition_by names {', '.join(lacking)}, but the columns are {', '.join(columns)}: correct partition_by"
        )
    if len(partition_by) >= len(columns):
        raise AssetJobError("partition_by names all columns: leave at least one column for the files")


@dataclass(frozen=True, kw_only=True)
class StagedFile:
    """A file that one task wrote."""

    path: str
    """The path relative to the try's staging folder and, once committed, to the run's part."""
    rows: int
