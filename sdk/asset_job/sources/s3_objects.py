"""S3 for executors: a connection that is pickled and does not show its credentials, and one version of an object.

An object is read in pieces, or at random as Parquet needs it, and never as a mixture of two versions. The next few small
objects are fetched while one is read: what takes long is not their bytes, but the server's response to each request.
"""

from __future__ import annotations

import importlib
import io
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cache, partial
from typing import IO, Any, cast

import obstore
from obstore import exceptions
from obstore.store import MemoryStore, ObjectStore, S3Store

from asset_job.errors import FileUnreadable, SourceFailed, SourceInvalid
from asset_job.sources.arrow import lines_of_part
from asset_job.sources.file_reader import FileAccess, Opening
from asset_job.sources.packing import PIECE, checked, codec_by_name, unpacked_if_named
from asset_job.sources.request import PUT_BACK, S3File

_LONGEST_READ = timedelta(hours=12)
"""The time for reading one file: Spark may consume it slowly."""
_LONGEST_SILENCE = timedelta(minutes=1)
_MOST_RETRIES = 10


@dataclass(frozen=True, kw_only=True)
class S3Access(FileAccess[S3File]):
    """A connection to S3, for any bucket."""

    endpoint: str | None
    """None: AWS's own."""
    config: tuple[tuple[str, str], ...] = field(repr=False)
    """obstore's settings: name, value."""

    def store(self, bucket: str) -> S3Store:
        """The client for a bucket, which a process makes once."""
        return _store(self, bucket)

    def opened(self, files: Iterable[S3File]) -> Iterator[tuple[S3File, Opening]]:
        for file, located in fetched_ahead(self, files):
            yield file, partial(_lasting, located)

    def errors(self, file: S3File) -> AbstractContextManager[None]:
        return s3_errors(file)


def s3_access(connection: Mapping[str, Any]) -> S3Access:
    """The access that a job's connection (`type: s3`) describes. Raises `SourceFailed`.

    `profile` and `role_arn` are resolved here, on the driver, to credentials that last for an hour as a rule. Without
    any, each executor finds its own as obstore does: environment, web identity, container or instance role.
    """
    given = {
        "region": connection.get("region"),
        "endpoint": connection.get("endpoint_url"),
        **_identity(connection),
        "virtual_hosted_style_request": _virtual_hosted(connection),
        "request_payer": "true" if connection.get("requester_pays") else None,
    }
    return S3Access(
        endpoint=connection.get("endpoint_url"),
        config=tuple((name, value) for name, value in given.items() if value is not None),
    )


def _virtual_hosted(connection: Mapping[str, Any]) -> str | None:
    """Obstore's setting for the addressing style. `auto` is by host name at AWS and by path at any other server."""
    style = connection.get("addressing_style", "auto")
    if style == "auto":
        return None if connection.get("endpoint_url") else "true"
    return str(style == "virtual").lower()


def _identity(connection: Mapping[str, Any]) -> dict[str, str | None]:
    if connection.get("anonymous"):
        return {"skip_signature": "true"}
    if connection.get("profile") or connection.get("role_arn"):
        return _resolved(connection)
    return {name: connection.get(name) for name in ("access_key_id", "secret_access_key")}


def _resolved(connection: Mapping[str, Any]) -> dict[str, str | None]:
    try:
        botocore = importlib.import_module("botocore.session")
        errors = importlib.import_module("botocore.exceptions")
    except ImportError:
        raise SourceFailed(
            "profile and role_arn of a connection need botocore in the driver's Python: install it, or give access keys"
        ) from None
    try:
        session = botocore.Session(profile=connection.get("profile"))
        if connection.get("access_key_id"):
            session.set_credentials(connection["access_key_id"], connection["secret_access_key"])
        if connection.get("role_arn"):
            return _assumed(session, connection)
        keys = session.get_credentials().get_frozen_credentials()
    except (errors.BotoCoreError, errors.ClientError, AttributeError) as error:
        raise SourceFailed(f"the connection's profile or role gives no credentials: {error}") from None
    return {"access_key_id": keys.access_key, "secret_access_key": keys.secret_key, "session_token": keys.token}


def _assumed(session: Any, connection: Mapping[str, Any]) -> dict[str, str | None]:
    sts = session.create_client("sts", region_name=connection.get("region"))
    answer = sts.assume_role(RoleArn=connection["role_arn"], RoleSessionName="asset-watcher")["Credentials"]
    return {
        "access_key_id": answer["AccessKeyId"],
        "secret_access_key": answer["SecretAccessKey"],
        "session_token": answer["SessionToken"],
    }


@cache
def _store(access: S3Access, bucket: str) -> S3Store:
    config: Any = dict(access.config)
    return S3Store(
        bucket,
        config=config,
        client_options={
            "allow_http": (access.endpoint or "").startswith("http:"),
            "timeout": _LONGEST_READ,
            "read_timeout": _LONGEST_SILENCE,
        },
        retry_config={"max_retries": _MOST_RETRIES, "retry_timeout": _LONGEST_READ},
    )


_BEHIND = 64 << 10
"""Bytes after a part that are requested with it: most last lines end there."""


@contextmanager
def s3_errors(file: S3File) -> Iterator[None]:
    """Turn what fails in the block into `FileUnreadable` or `SourceFailed`, with a sentence that names the file."""
    try:
        yield
    except (FileNotFoundError, exceptions.NotFoundError):
        raise FileUnreadable(f"{file.address} was deleted since it was detected; {PUT_BACK}") from None
    except exceptions.PreconditionError:
        raise FileUnreadable(f"{file.address} was overwritten since it was detected; {PUT_BACK}") from None
    except (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError):
        raise FileUnreadable(
            f"{file.address} may not be read with this connection: grant its identity the permission"
        ) from None
    except (exceptions.BaseError, OSError) as error:
        raise SourceFailed(f"{file.address} cannot be reached: {first_line(error)}") from None


_AHEAD = 8
"""How many files are fetched ahead."""
_SMALL = 4 << 20
"""Bytes of the largest file that is fetched ahead. At most `_AHEAD` such files are in memory for each task."""


def fetched_ahead(access: S3Access, files: Iterable[S3File]) -> Iterator[tuple[S3File, Callable[[], OpenObject]]]:
    """The files in their order, each with a call that returns it open, or raises why it cannot be fetched."""
    upcoming = iter(files)
    ahead: deque[tuple[S3File, Future[OpenObject]]] = deque()
    pool = ThreadPoolExecutor(_AHEAD, thread_name_prefix="s3files")
    try:
        while True:
            while len(ahead) < _AHEAD and (file := next(upcoming, None)) is not None:
                ahead.append((file, pool.submit(_opened, access, file)))
            if not ahead:
                return
            file, opened = ahead.popleft()
            yield file, opened.result
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _opened(access: S3Access, file: S3File) -> OpenObject:
    """An object, open for reading. A small one is fetched into memory."""
    store = access.store(file.bucket)
    if not 0 < file.size <= _SMALL or file.part is not None:
        return OpenObject(store, file, name=file.name)
    memory, content = MemoryStore(), _get(store, file).bytes()
    obstore.put(memory, path_of(file.key), bytes(content))
    return OpenObject(memory, replace(file, size=len(content), etag=None), name=file.name)


def _lasting(located: Callable[[], OpenObject]) -> AbstractContextManager[OpenObject]:
    """An object that needs no end: each request names its version."""
    return nullcontext(located())


@dataclass(frozen=True)
class OpenObject:
    """One version of an object that is open for reading. Implements `OpenFile`."""

    store: ObjectStore
    file: S3File
    name: str = field(kw_only=True)

    @property
    def size(self) -> int:
        return self.file.size

    @property
    def part(self) -> tuple[int, int] | None:
        return self.file.part

    def pieces(self) -> Iterator[bytes]:
        if self.file.part is not None:
            begin, end = self.file.part
            pieces = self._from(begin, end)
            return lines_of_part(pieces if begin else checked(pieces, self.name), begin, end)
        if codec_by_name(self.name) is not None:
            return unpacked_if_named(self.seekable(), self.name)
        return checked(map(bytes, _get(self.store, self.file).stream(min_chunk_size=PIECE)), self.name)

    def seekable(self) -> IO[bytes]:
        return cast("IO[bytes]", PinnedObject(self.store, self.file))

    def _from(self, begin: int, end: int) -> Iterator[bytes]:
        """The bytes that start with the byte before `begin`. The first request ends a little after `end`, as most lines do.

        Raises `FileUnreadable` if the size is not the detected one: further bytes would be in no part.
        """
        at, upto = max(begin - 1, 0), end + _BEHIND
        while at < self.size:
            response = _get(self.store, self.file, range=(at, min(upto, self.size)))
            if response.meta["size"] != self.size:
                actual = response.meta["size"]
                raise FileUnreadable(
                    f"{self.name} cannot be read: it has {actual} bytes, but its event names {self.size}"
                )
            yield from map(bytes, response.stream(min_chunk_size=PIECE))
            at, upto = upto, upto + PIECE


class PinnedObject(io.RawIOBase):
    """Random access to one version of an object. Each read is a request, so read large pieces."""

    def __init__(self, store: ObjectStore, file: S3File) -> None:
        if not (file.etag and file.size):
            head = obstore.head(store, path_of(file.key))
            file = replace(file, size=head["size"], etag=file.etag or (head["e_tag"] or "").strip('"') or None)
        self._store, self._file, self._size = store, file, file.size
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = max(0, start + offset)
        return self._position

    def readinto(self, buffer: Any) -> int:
        content = self.read(len(buffer))
        buffer[: len(content)] = content
        return len(content)

    def read(self, size: int = -1) -> bytes:
        return bytes(self.read_buffer(size))

    def read_buffer(self, size: int = -1) -> obstore.Bytes | bytes:
        """The same without a copy, for pyarrow, which asks for a method of this name."""
        end = self._size if size < 0 else min(self._size, self._position + size)
        if end <= self._position:
            return b""
        content: obstore.Bytes = _get(self._store, self._file, range=(self._position, end)).bytes()
        self._position += len(content)
        return content


def path_of(key: str) -> str:
    """The key as obstore's path. Raises `SourceInvalid` for the few keys that obstore would take for other keys."""
    if any(part in {"", ".", ".."} for part in key.split("/")):
        raise SourceInvalid(
            f"the key {key} has an empty part, or one that is . or ..: give the job spark.packages with hadoop-aws, and "
            "read it with reader='spark'"
        )
    return key


def _get(store: ObjectStore, file: S3File, **options: Any) -> Any:
    """Get this version of an object only, also from a server that ignores If-Match."""
    if file.etag is None:
        return obstore.get(store, path_of(file.key), options=cast("Any", options))
    response = obstore.get(store, path_of(file.key), options=cast("Any", options | {"if_match": f'"{file.etag}"'}))
    if (response.meta["e_tag"] or file.etag).strip('"') != file.etag:
        raise exceptions.PreconditionError
    return response


def first_line(error: Exception) -> str:
    """The first line of an error's message: obstore's messages have many lines."""
    return next(iter(str(error).splitlines()), type(error).__name__)
