"""Removes or moves objects that were loaded: exactly these, by a DELETE that the server refuses for any other content.

A copy carries the ticket of its file in its metadata, so that a copy whose answer was lost is known again, and anything else at
its place is left alone.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar
from uuid import uuid4

import anyio
from botocore.exceptions import ClientError

from triggers.base import Finding
from triggers.cleaning import FoundFile, LoadedFile, Outcome
from triggers.errors import TriggerError
from triggers.file_scan.questions.cleaning import FileCleaner
from triggers.file_scan.versions import SECOND, moment_of, parse_moment
from triggers.s3.failures import S3Refused
from triggers.s3.objects import S3Object, Selection
from triggers.s3.options import ObjectPlace, S3NewFilesOptions

if TYPE_CHECKING:
    from triggers.s3.listing import S3Client

TICKET: Final = "asset-watcher-ticket"
"""The name in a copy's metadata."""
LARGEST_COPY: Final = 5 * 1024**3
"""The most bytes of an object that one request copies."""
AT_A_TIME: Final = 10
"""The most requests at the same time."""

_MISSING: Final = frozenset({"404", "NoSuchKey", "NoSuchVersion", "MethodNotAllowed"})
_CHANGED: Final = frozenset({"412", "PreconditionFailed"})
_BUSY: Final = frozenset({"409", "ConditionalRequestConflict"})
_KEPT_HEADERS: Final = (
    "CacheControl",
    "ContentDisposition",
    "ContentEncoding",
    "ContentLanguage",
    "ContentType",
    "Expires",
    "StorageClass",
)
"""What a copy with metadata of its own has to be given again."""
T = TypeVar("T")
R = TypeVar("R")


class ObjectCleaner(FileCleaner[S3NewFilesOptions, "S3Client"]):
    """Cleans a bucket below a prefix. A moved object keeps what its key has behind the prefix."""

    async def place(self) -> str:
        return ""  # a bucket is there as a whole, or a request fails

    async def find(self, files: Sequence[LoadedFile]) -> Sequence[FoundFile]:
        return await _each(files, self._look)

    async def copy(self, files: Sequence[LoadedFile]) -> Sequence[Outcome]:
        target = self.options.target
        assert target is not None  # noqa: S101  else nothing is copied
        async with self.client.writer.open() as client:
            return await _each(files, lambda file: self._copied(client, file, target))

    async def find_copies(self, files: Sequence[LoadedFile]) -> Sequence[Mapping[str, Any] | None]:
        target = self.options.target
        if target is None:
            return [None] * len(files)
        async with self.client.writer.open() as client:
            return await _each(files, lambda file: self._described_copy(client, file, target))

    async def remove(self, files: Sequence[LoadedFile], *, begin: bool = True) -> Sequence[Outcome]:
        if not begin:  # a DELETE is done, or was never begun
            there = await self.find(files)
            return ["refused" if each.outcome == "done" else "done" for each in there]
        async with self.client.writer.open() as client:
            return await _each(files, lambda file: self._removed(client, file))

    async def _look(self, file: LoadedFile) -> FoundFile:
        options, key = self.options, str(file.content["key"])
        page, _ = await self.client.list_page(options.bucket, key, None, max_keys=1)
        if not page.rows or page.key_bytes(page.rows[0]) != key.encode():
            return FoundFile(outcome="gone")
        selection = Selection(
            bucket=options.bucket,
            prefix=options.prefix,
            matcher=options.matcher,
            min_size=options.min_size,
            directory_markers=options.directory_markers,
        )
        row = page.rows[0]
        name = selection.fingerprint(row, url_encoded=page.url_encoded)
        version = S3Object(row, name, bucket=options.bucket, url_encoded=page.url_encoded)
        if version.describe() != dict(file.content):
            return FoundFile(outcome="gone")
        return FoundFile(outcome="done", names=(name, *version.aliases))

    async def _removed(self, client: Any, file: LoadedFile) -> Outcome:
        if (await self._look(file)).outcome == "gone":
            return "done"
        if not file.content["etag"]:
            return "refused"  # nothing tells it from what replaces it
        try:
            await client.delete_object(
                Bucket=self.options.bucket,
                Key=file.content["key"],
                IfMatch=_etag(file),
                **self.client.writer.extra,
            )
        except ClientError as error:
            if _code(error) not in _MISSING | _CHANGED | _BUSY:
                raise
            return "done" if (await self._look(file)).outcome == "gone" else "refused"
        return "done"

    def _place_of(self, file: LoadedFile, target: ObjectPlace) -> Mapping[str, str]:
        key = target.prefix + self.options.name_below(str(file.content["key"]))
        return {"Bucket": target.bucket, "Key": key}

    async def _described_copy(self, client: Any, file: LoadedFile, target: ObjectPlace) -> Mapping[str, Any] | None:
        place = self._place_of(file, target)
        copy = await _head(client, {**place, **self.client.writer.extra})
        return None if copy is None or not _is_copy(copy, file) else _described(place, copy, file)

    async def _copied(self, client: Any, file: LoadedFile, target: ObjectPlace) -> Outcome:
        if int(file.content["size"]) > LARGEST_COPY:
            return "too_large"
        extra, place = self.client.writer.extra, self._place_of(file, target)
        if (copy := await _head(client, {**place, **extra})) is not None:
            return "done" if _is_copy(copy, file) else "exists"
        source = {"Bucket": self.options.bucket, "Key": file.content["key"]}
        head = await _head(client, {**source, "IfMatch": _etag(file), **extra})
        if head is None or moment_of(head["LastModified"]) // SECOND != _written(file) // SECOND:
            return "gone"
        try:
            await client.copy_object(
                CopySource=source,
                CopySourceIfMatch=_etag(file),
                IfNoneMatch="*",
                MetadataDirective="REPLACE",
                Metadata={**head["Metadata"], TICKET: file.ticket},
                **place,
                **{name: head[name] for name in _KEPT_HEADERS if name in head},
                **extra,
            )
        except ClientError as error:
            if _code(error) in _MISSING | _CHANGED | _BUSY:
                return "refused"  # another look says why
            raise
        copy = await _head(client, {**place, **extra})
        return "done" if copy is not None and _is_copy(copy, file) else "refused"


async def cleaning_check(client: S3Client, options: S3NewFilesOptions) -> Finding:
    """Ask the server to delete an object that is not there if it has a certain content. A server that obeys refuses."""
    key = f"{options.prefix}.asset-watcher-{uuid4().hex}"
    try:
        async with client.writer.open() as writer:
            try:
                answer = await writer.delete_object(
                    Bucket=options.bucket, Key=key, IfMatch=f'"{"0" * 32}"', **client.writer.extra
                )
            except ClientError as error:
                if _code(error) not in _MISSING | _CHANGED:
                    raise
                return Finding.ok("clean_source", "the server deletes an object only if it is the one that was loaded")
            if version := answer.get("VersionId"):  # a marker, in a bucket with versions
                await writer.delete_object(Bucket=options.bucket, Key=key, VersionId=version, **client.writer.extra)
    except S3Refused as error:
        return error.failure.finding("clean_source")
    return Finding.error(
        "clean_source",
        f"{client.endpoint} ignores the condition of a DELETE, so that an object written meanwhile could be deleted",
        "use a server that obeys If-Match in DELETE, or remove clean_source",
    )


async def target_check(client: S3Client, target: ObjectPlace) -> Finding:
    """Ask for an object of the target that is not there. The answer that it is missing takes the right to read, and to list."""
    place = f"s3://{target.bucket}/{target.prefix}"
    try:
        async with client.writer.open() as writer:
            key = f"{target.prefix}.asset-watcher-{uuid4().hex}"
            await _head(writer, {"Bucket": target.bucket, "Key": key, **client.writer.extra})
    except S3Refused as error:
        return Finding.warning(
            "move_to",
            f"moved objects may not be readable at {place}: {error}",
            "let the watcher's identity and those of the jobs get objects there, and list the bucket",
        )
    return Finding.ok(
        "move_to", f"the watcher can read {place}; jobs read moved objects there, and need that right, too"
    )


def _etag(file: LoadedFile) -> str:
    return f'"{file.content["etag"]}"'


def _written(file: LoadedFile) -> int:
    return parse_moment(str(file.content["last_modified"]))


def _code(error: ClientError) -> str:
    return str(error.response["Error"]["Code"])


async def _head(client: Any, which: Mapping[str, Any]) -> Mapping[str, Any] | None:
    try:
        head: Mapping[str, Any] = await client.head_object(**which)
    except ClientError as error:
        if _code(error) in _MISSING | _CHANGED:
            return None
        raise
    return head


def _described(place: Mapping[str, str], head: Mapping[str, Any], file: LoadedFile) -> Mapping[str, Any]:
    """Describe a copy as an event would, with its version if the bucket has versions. The time of writing stays the file's."""
    version = head.get("VersionId")
    return {
        "bucket": place["Bucket"],
        "key": place["Key"],
        "size": int(head["ContentLength"]),
        "etag": str(head["ETag"]).strip('"'),
        **({} if version in {None, "null"} else {"version_id": version}),
        "moved_from": f"s3://{file.content['bucket']}/{file.content['key']}",
    }


def _is_copy(head: Mapping[str, Any], file: LoadedFile) -> bool:
    return bool(head["Metadata"].get(TICKET) == file.ticket and head["ContentLength"] == file.content["size"])


async def _each(files: Sequence[T], step: Callable[[T], Awaitable[R]]) -> Sequence[R]:
    """Take a step for each of them, some at the same time. Raises the first error, unpacked."""
    results: dict[int, R] = {}
    failures: list[Exception] = []
    limit = anyio.CapacityLimiter(AT_A_TIME)

    async def take(place: int, file: T) -> None:
        async with limit:
            if failures:
                return
            try:
                results[place] = await step(file)
            except (TriggerError, ClientError) as error:
                failures.append(error)

    async with anyio.create_task_group() as tasks:
        for place, file in enumerate(files):
            tasks.start_soon(take, place, file)
    if failures:
        raise failures[0]
    return [results[place] for place in range(len(files))]
