"""File systems as the mount table names them: whether a file keeps its inode number there when it is mounted again."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from time import monotonic
from typing import Final

TABLE: Final = Path("/proc/self/mountinfo")
"""proc(5) describes its lines."""
STABLE: Final = frozenset(
    (
        *(
            "bcachefs",
            "btrfs",
            "erofs",
            "ext2",
            "ext3",
            "ext4",
            "f2fs",
            "jfs",
            "nilfs2",
            "reiserfs",
            "squashfs",
            "xfs",
            "zfs",
        ),
        *("gfs2", "nfs", "nfs4", "ocfs2", "overlay", "ramfs", "tmpfs"),
    )
)
"""The types that keep inode numbers: local ones, and NFS, whose server has them."""
_FRESH_FOR: Final = 10.0
"""Seconds for which an answer holds: the table is not read for each poll."""
_ESCAPED: Final = re.compile(r"\\([0-7]{3})")


def unstable_type(root: str, device: int) -> str | None:
    """Return the type of a file system at or below the folder whose inode numbers may change; None: there is none. Blocks.

    `device` is the folder's. Without a mount table, which Linux alone has, all are taken for stable.
    """
    return _unstable_type(root, device, TABLE, monotonic() // _FRESH_FOR)


@lru_cache(maxsize=256)
def _unstable_type(root: str, _device: int, table: Path, _time: float) -> str | None:
    try:
        text = table.read_text(errors="surrogateescape")
    except OSError:
        return None
    return next((each for each in types_at(os.path.realpath(root), text) if each not in STABLE), None)


def types_at(folder: str, table: str) -> Iterator[str]:
    """Return the types of the file systems at a folder and below it, by the text of a mount table (pure)."""
    mounts = dict(_mounts(table))  # of several at one place the last one is seen
    above = [place for place in mounts if _is_below(folder, place)]
    if above:
        yield mounts[max(above, key=len)]
    yield from (type_ for place, type_ in mounts.items() if place != folder and _is_below(place, folder))


def _mounts(table: str) -> Iterator[tuple[str, str]]:
    for line in table.splitlines():
        fields, _, rest = line.partition(" - ")
        place = _ESCAPED.sub(lambda octal: chr(int(octal[1], 8)), fields.split(" ")[4])
        yield place, rest.split(" ")[0]


def _is_below(path: str, folder: str) -> bool:
    return folder in {"/", path} or path.startswith(f"{folder}/")
