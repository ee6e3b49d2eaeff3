"""`r.append`: a frame becomes the run's part of a table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol
from uuid import uuid4

from ..errors import AssetJobError, TargetFailed
from ..sources.connections import connection_of
from ..sources.failures import require, sentence_in
from .layout import Owner, Place, check_columns
from .local import LocalTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from .observing import Observed


class Table(Protocol):
    """One try's way to its run's part of a table."""

    @property
    def place(self) -> Place: ...

    def others(self, spark: SparkSession, columns: Mapping[str, str], partition_by: Sequence[str]) -> DataFrame | None:
        """What other runs hold in these columns (name -> Spark's type); None when there is nothing."""

    def prepare(self) -> None: ...
    def stage(self, frame: DataFrame, partition_by: Sequence[str]) -> None: ...
    def commit(self, rows: int) -> None: ...
    def withdraw(self) -> None: ...


@dataclass(frozen=True, kw_only=True)
class Appended:
    """What a run added to a table."""

    target: str
    rows: int
    seen: Observed | None
    """None when nothing was written."""

    def max(self, column: str) -> Any:
        """The largest value of a column, None of no rows; it was looked for while the rows were written."""
        return None if self.seen is None else self.seen.max(column)


@dataclass(frozen=True, kw_only=True)
class Staged:
    """Written, and seen by nobody yet."""

    table: Table
    appended: Appended

    def commit(self) -> None:
        if self.appended.rows:
            self.table.commit(self.appended.rows)
        else:
            self.table.withdraw()


def table_at(
    place: Place, owner: Owner, connections: Mapping[str, Mapping[str, Any]], connection: str | None = None
) -> Table:
    """Raises `AssetJobError` where the way to the bucket is missing."""
    attempt = uuid4().hex
    if place.bucket is None:
        return LocalTable(place=place, owner=owner, attempt=attempt)
    chosen = connection_of(connections, "s3", connection)
    require("pyarrow", "obstore")
    from ..sources.s3access import s3_access  # noqa: PLC0415 - needs what was just required
    from .objects import S3Table  # noqa: PLC0415

    return S3Table(place=place, owner=owner, attempt=attempt, access=s3_access(chosen))


def stage(table: Table, frame: DataFrame | None, partition_by: Sequence[str], still_ours: Callable[[], None]) -> Staged:
    """Write the frame where readers do not look; None: nothing. Raises `AssetJobError`, also for what executors say.

    `still_ours` raises when the try was superseded, which must not take away what its successor is writing.
    """
    still_ours()
    table.prepare()
    seen = None if frame is None else _written(table, frame, partition_by)
    return Staged(table=table, appended=Appended(target=str(table.place), rows=seen.rows if seen else 0, seen=seen))


def _written(table: Table, frame: DataFrame, partition_by: Sequence[str]) -> Observed:
    from .observing import observed  # noqa: PLC0415 - needs pyspark

    check_columns(frame.columns, partition_by)
    counted, seen = observed(frame)
    try:
        table.stage(counted, partition_by)
    except AssetJobError:
        raise
    except Exception as error:
        sentence = sentence_in(str(error))
        if sentence is None:
            raise
        raise TargetFailed(sentence) from error
    return seen


def commit(staged: Iterable[Staged], still_ours: Callable[[], None]) -> None:
    """`still_ours` raises when the try was superseded: then nothing is changed."""
    found = list(staged)
    still_ours()
    for one in found:
        one.commit()
