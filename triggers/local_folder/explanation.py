"""Why a file of a local folder was reported, or was not."""

from __future__ import annotations

import os
from dataclasses import replace
from urllib.parse import unquote

from anyio.to_thread import run_sync

from triggers.base import StoredPosition
from triggers.errors import SourceUnavailable
from triggers.explanations import Explanation, cannot_tell, outside
from triggers.file_scan.options import FileOptions
from triggers.file_scan.questions.explanation import SeenFile, explain_file, missing, not_matched
from triggers.local_folder.folder import Identity, clock, file_at, shown_path


def key_of(item: str, root: str) -> str | Explanation:
    """Return the path below the watched folder that an item means: a path, or a `file:` URL (pure)."""
    scheme, separator, rest = item.partition("://")
    if separator and scheme.lower() != "file":
        return outside(f"{scheme}: is no address of a local file")
    path = unquote(rest) if separator else item
    if not path or "\0" in path:
        return outside("it is no path of a file")
    key = os.path.relpath(os.path.join(root, path), root)  # noqa: PTH118 - text, not a path of this machine
    if key in {".", ".."} or key.startswith("../"):
        return outside(f"it does not lie below the watcher's folder {root!r}")
    return key


def named(item: str, root: str) -> Explanation:
    """Return how events name the file that an item means (pure)."""
    key = key_of(item, root)
    if isinstance(key, Explanation):
        return key
    return replace(cannot_tell(item), name=_name_of(key, root), rejected_as=key)


def _name_of(key: str, root: str) -> str:
    return shown_path(os.path.join(root, key))  # noqa: PTH118 - text, as events have it


async def explain_local_file(
    options: FileOptions, root: str, item: str, position: StoredPosition | None, identity: Identity
) -> Explanation:
    """Look at the one file. Raises `SourceUnavailable`."""
    key = key_of(item, root)
    if isinstance(key, Explanation):
        return key
    named_file = named(item, root)
    if (unmatched := not_matched(key, named_file, options)) is not None:
        return unmatched
    now = clock()
    try:
        file = await run_sync(file_at, root, key, identity)
    except OSError as error:
        raise SourceUnavailable(
            f"{key!r} cannot be looked at ({error.strerror}); check the rights and the mount"
        ) from error
    if file is None:
        return missing(named_file)
    seen = SeenFile(version=file, size=file.size, clock=now, is_selected=file.size >= options.min_size)
    return explain_file(seen, named_file, options, position)
