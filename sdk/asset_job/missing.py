"""Files of a run that are not as their events say: which of them newer versions supersede, and what the daemon is told of the rest."""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from asset_job.client import Transport
from asset_job.errors import AssetJobError, NotFound, gone_file
from asset_job.events import AssetEvent, TriggeringAssetEvents, name_in_event

MOST_PATHS: Final = 10_000
"""The most paths of one question, and the most that a failure names."""
MOST_ASKED_FOR: Final = 1_000
"""The most files of a run for which the daemon is asked after a failure that names none of them."""
PATIENCE: Final = 60.0
"""Seconds for which a question is repeated while the daemon does not answer."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
log = logging.getLogger("asset_job")


def superseded_names(client: Transport, events: TriggeringAssetEvents) -> Collection[str]:
    """The names of the files of these events that newer versions supersede, as the daemon knows it now.

    Without an answer there is none: what failed because of a missing file fails then.
    """
    names = sorted({name_in_event(file) for file in events.files()})
    superseded: set[str] = set()
    try:
        for start in range(0, len(names), MOST_PATHS):
            body = {"paths": names[start : start + MOST_PATHS]}
            superseded.update(client.call("POST", "superseded", body=body, patience=PATIENCE)["superseded"])
    except NotFound:
        log.debug("a local run, or an older daemon, does not know which files newer versions supersede")
    except AssetJobError as error:
        log.warning("nobody said which files newer versions supersede: %s", error)
    return superseded


def without_superseded(given: Any, names: Collection[str]) -> Any:
    """What a job asks to read, events or files, without the files of these names. Ranges of ids stay."""
    if isinstance(given, Mapping):
        given = [event for of_asset in given.values() for event in of_asset]
    kept = [item for item in given if not (isinstance(item, Mapping) and name_in_event(item) in names)]
    return [item.without(names) if isinstance(item, AssetEvent) else item for item in kept]


def missing_files(error: BaseException, events: TriggeringAssetEvents) -> Sequence[Mapping[str, Any]]:
    """The files of these events that are not as these say: the one that the error names, and others of folders of this machine."""
    gone, files = gone_file(error), events.files()
    missing = {name_in_event(file): True for file in files[:MOST_PATHS] if _is_overwritten(file)}
    if gone is not None:
        missing |= {name_in_event(file): gone[1] for file in files if gone[0] in _names(file)}
    return [{"path": name, "overwritten": overwritten} for name, overwritten in missing.items()]


def _names(file: Mapping[str, Any]) -> Iterator[str]:
    yield name_in_event(file)
    if "key" in file:
        yield f"s3://{file.get('bucket')}/{file['key']}"


def _is_overwritten(file: Mapping[str, Any]) -> bool:
    """Whether another version of a file of a folder is at its place."""
    if "path" not in file or "last_modified" not in file:
        return False
    try:
        status = os.stat(str(file["path"]).encode())  # noqa: PTH116 - a Path depends on the locale
    except OSError:
        return False
    modified = (datetime.fromisoformat(file["last_modified"]) - _EPOCH) // _MICROSECOND
    now = {"size": status.st_size, "inode": status.st_ino}
    is_same = all(file.get(name) in {None, value} for name, value in now.items())
    return not is_same or status.st_mtime_ns // 1000 != modified
