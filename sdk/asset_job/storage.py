"""A worker-side backend that stores values as objects: on S3, in a folder, or in any other storage that fsspec supports.

    workers:
      state_store_backend: asset_job.storage.ObjectStorageStateBackend
      options: {url: "s3://state/asset-watcher", threshold_bytes: 10000, compression: gzip}

Needs `fsspec` in the driver's Python, and `s3fs` for s3:. Credentials and endpoint come from the job's environment: for S3
those that AWS's libraries find (AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL, a profile, a role). They are never part of the options.
"""

from __future__ import annotations

import bz2
import gzip
import hashlib
import json
import lzma
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import astuple
from functools import cached_property
from typing import Any

from asset_job.backends import AssetScope, BaseStateBackend, TaskScope

_Codec = tuple[str, Callable[[bytes], bytes], Callable[[bytes], bytes]]
_CODECS: dict[str | None, _Codec] = {
    None: ("", bytes, bytes),
    "gzip": (".gz", lambda data: gzip.compress(data, mtime=0), gzip.decompress),
    "bz2": (".bz2", bz2.compress, bz2.decompress),
    "xz": (".xz", lzma.compress, lzma.decompress),
}
_READABLE = 60
"""Characters of a name that a path repeats."""


class ObjectStorageStateBackend(BaseStateBackend):
    """Stores one object per scope and key below `url`. An object exists as a whole or not at all.

    Values whose JSON has at most `threshold_bytes` stay in the database; 0 stores all values as objects. `compression` is
    None, gzip, bz2 or xz; objects with any of these can be read. References outside of `url` are rejected.
    """

    def __init__(self, *, url: str, threshold_bytes: int = 0, compression: str | None = None) -> None:
        if compression not in _CODECS:
            raise ValueError(f"compression {compression!r} is unknown: use gzip, bz2, xz, or leave it out")
        self._url = url.rstrip("/")
        self._threshold = threshold_bytes
        self._suffix, self._compress, _ = _CODECS[compression]

    def serialize_task_state_store_to_ref(self, *, value: Any, key: str, scope: TaskScope) -> str | None:
        return self._store(("task", *map(str, astuple(scope))), key, value)

    def serialize_asset_state_store_to_ref(self, *, value: Any, key: str, scope: AssetScope) -> str | None:
        return self._store(("asset", scope.name or scope.uri or ""), key, value)

    def _store(self, scope: tuple[str, ...], key: str, value: Any) -> str | None:
        data = json.dumps(value).encode()
        if 0 < len(data) <= self._threshold:
            return None
        reference = "/".join((self._url, *map(_part, scope), f"{_part(key)}.json{self._suffix}"))
        path = self._path(reference)
        if "file" in self._storage.protocol:
            self._storage.makedirs(path.rpartition("/")[0], exist_ok=True)
        with self._storage.transaction, self._storage.open(path, "wb") as file:  # visible only when it is complete
            file.write(self._compress(data))
        return reference

    def deserialize_task_state_store_from_ref(self, stored: Any) -> Any:
        path = self._path(stored)
        data: bytes = self._storage.cat_file(path)
        for suffix, _, decompress in _CODECS.values():
            if suffix and path.endswith(suffix):
                data = decompress(data)
        return json.loads(data)

    deserialize_asset_state_store_from_ref = deserialize_task_state_store_from_ref

    def purge_task_state_store(self, stored: Any) -> None:
        with suppress(FileNotFoundError):
            self._storage.rm_file(self._path(stored))

    purge_asset_state_store = purge_task_state_store

    def _path(self, reference: Any) -> str:
        """The storage's path of a reference. Raises ValueError for a forged reference that leads outside of `url`."""
        inside = isinstance(reference, str) and reference.startswith(f"{self._url}/")
        if not inside or ".." in reference[len(self._url) :].split("/"):
            raise ValueError(f"the reference does not lie in {self._url}: correct settings.workers.options.url")
        path: str = self._storage._strip_protocol(reference)  # noqa: SLF001 - fsspec documents it for implementations
        return path

    @cached_property
    def _storage(self) -> Any:
        try:
            from fsspec.core import url_to_fs  # noqa: PLC0415 - only this backend needs fsspec
        except ImportError:
            raise RuntimeError("fsspec is missing: install it in the Python of the job's driver") from None
        return url_to_fs(self._url)[0]


def _part(name: str) -> str:
    """A part of a path that is unique to the name, and repeats it as far as that is safe."""
    readable = re.sub(r"[^A-Za-z0-9_-]+", "_", name)[:_READABLE]
    return f"{readable}-{hashlib.sha256(name.encode()).hexdigest()[:32]}"
