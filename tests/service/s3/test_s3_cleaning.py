"""The cleaner of a bucket, against an S3 server over HTTP: exactly what was loaded goes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from aiohttp import web
from pydantic import ValidationError

from tests.servers import S3Server
from tests.service.s3.conftest import Front, Put, error, new_files
from tests.unit.triggers_files.dict_host import DictHost
from triggers.cleaning import LoadedFile, SourceCleaner
from triggers.s3.cleaning import TICKET
from triggers.s3.connection import S3Connection
from triggers.s3.failures import S3Refused
from triggers.s3.listing import S3Client
from triggers.s3.new_files import S3NewFiles, S3NewFilesOptions

pytestmark = pytest.mark.service

DELETE = {"delete": True, "after": "0s"}


def cleaner_of(watcher: S3NewFiles) -> SourceCleaner:
    cleaner = watcher.cleaner()
    assert cleaner is not None
    return cleaner


async def loaded(watcher: S3NewFiles, host: DictHost | None = None) -> list[LoadedFile]:
    """Report what is there, and return it as the host has it."""
    host = host or DictHost()
    await host.run(watcher, polls=2)
    return [LoadedFile(ticket=f"t{number}", content=content) for number, content in enumerate(host.files)]


def watching(client: S3Client, bucket: str, clean_source: Any = DELETE, **options: Any) -> S3NewFiles:
    return new_files(client, bucket, **{"start": "all", "clean_source": clean_source, "prefix": "in/", **options})


def moving(client: S3Client, bucket: str) -> S3NewFiles:
    return watching(client, bucket, {"move_to": f"s3://{bucket}/done/", "after": "0s"})


def keys(s3_server: S3Server, bucket: str) -> list[str]:
    return [each["Key"] for each in s3_server.client.list_objects_v2(Bucket=bucket).get("Contents", ())]


ODD = ["in/a b+c%/ü.csv", "in/q&<>'\".csv"]


@pytest.mark.parametrize("versioned", [False, True])
async def test_loaded_objects_are_found_and_removed(
    client: S3Client, bucket: str, put: Put, s3_server: S3Server, versioned: bool
) -> None:
    if versioned:
        s3_server.client.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
        put("in/a", body=b"older")
    put("in/a", "in/b", *ODD, body=b"now")
    put("other")
    watcher, host = watching(client, bucket), DictHost()
    cleaner, files = cleaner_of(watcher), await loaded(watcher, host)
    assert {name for each in await cleaner.find(files) for name in each.names} >= host.rows.keys()
    assert await cleaner.remove(files) == ["done"] * 4
    assert keys(s3_server, bucket) == ["other"]
    assert [each.outcome for each in await cleaner.find(files)] == ["gone"] * 4
    assert await cleaner.remove(files) == ["done"] * 4
    assert await host.run(watching(client, bucket), polls=2) == []


@pytest.mark.parametrize("body", [b"new", b"old"])
async def test_what_was_written_over_a_loaded_object_stays(
    client: S3Client, bucket: str, put: Put, s3_server: S3Server, body: bytes
) -> None:
    put("in/a", body=b"old")
    watcher = watching(client, bucket)
    cleaner, files = cleaner_of(watcher), await loaded(watcher)
    put("in/a", body=body)
    later = [LoadedFile(ticket="t0", content={**files[0].content, "last_modified": "2026-01-01T00:00:00Z"})]
    files = files if body == b"new" else later
    assert [each.outcome for each in await cleaner.find(files)] == ["gone"]
    assert await cleaner.remove(files) == ["done"]
    assert keys(s3_server, bucket) == ["in/a"]


async def test_an_object_that_is_written_in_the_last_moment_stays(
    through_front: S3Client, front: Front, bucket: str, put: Put, s3_server: S3Server
) -> None:
    put("in/a", body=b"old")
    watcher = watching(through_front, bucket)
    cleaner, files = cleaner_of(watcher), await loaded(watcher)

    def write(_request: web.Request, _body: bytes) -> None:
        put("in/a", body=b"new")

    front.script = [write]
    assert await cleaner.remove(files) == ["done"]
    assert s3_server.client.get_object(Bucket=bucket, Key="in/a")["Body"].read() == b"new"


async def test_a_removal_is_not_begun_after_a_kill_but_may_have_been_made(
    client: S3Client, bucket: str, put: Put, s3_server: S3Server
) -> None:
    put("in/a", "in/b")
    watcher = watching(client, bucket)
    cleaner, files = cleaner_of(watcher), await loaded(watcher)
    s3_server.client.delete_object(Bucket=bucket, Key="in/a")
    assert await cleaner.remove(files, begin=False) == ["done", "refused"]
    assert keys(s3_server, bucket) == ["in/b"]


@pytest.mark.parametrize("versioned", [False, True])
async def test_an_object_is_moved_with_its_metadata(
    client: S3Client, bucket: str, s3_server: S3Server, versioned: bool
) -> None:
    if versioned:
        s3_server.client.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    headers = {"ContentType": "text/csv", "CacheControl": "no-store", "Metadata": {"author": "me"}}
    s3_server.client.put_object(Bucket=bucket, Key="in/x/ü +.csv", Body=b"a", **headers)
    watcher = moving(client, bucket)
    cleaner, files = cleaner_of(watcher), await loaded(watcher)
    assert await cleaner.copy(files) == ["done"]
    assert await cleaner.copy(files) == ["done"]
    assert await cleaner.remove(files) == ["done"]
    assert keys(s3_server, bucket) == ["done/x/ü +.csv"]
    head = s3_server.client.head_object(Bucket=bucket, Key="done/x/ü +.csv")
    version = {"version_id": head["VersionId"]} if versioned else {}
    [place] = await cleaner.find_copies(files)
    assert place == {
        "bucket": bucket,
        "key": "done/x/ü +.csv",
        "size": 1,
        "etag": head["ETag"].strip('"'),
        "moved_from": f"s3://{bucket}/in/x/ü +.csv",
        **version,
    }
    moved = s3_server.client.get_object(Bucket=bucket, Key="done/x/ü +.csv")
    assert moved["Body"].read() == b"a"
    assert moved["Metadata"] == {"author": "me", TICKET: "t0"}
    assert (moved["ContentType"], moved["CacheControl"]) == ("text/csv", "no-store")


async def test_another_object_at_the_target_is_not_overwritten(
    client: S3Client, bucket: str, s3_server: S3Server, put: Put
) -> None:
    put("in/a")
    put("done/a", body=b"other")
    watcher = moving(client, bucket)
    cleaner, files = cleaner_of(watcher), await loaded(watcher)
    assert await cleaner.copy(files) == ["exists"]
    assert await cleaner.find_copies(files) == [None]
    assert s3_server.client.get_object(Bucket=bucket, Key="done/a")["Body"].read() == b"other"


async def test_an_object_that_changes_before_it_is_copied_is_not_copied(
    client: S3Client, bucket: str, s3_server: S3Server, put: Put
) -> None:
    put("in/a")
    watcher = moving(client, bucket)
    cleaner, files = cleaner_of(watcher), await loaded(watcher)
    put("in/a", body=b"new")
    assert await cleaner.copy(files) == ["gone"]
    assert keys(s3_server, bucket) == ["in/a"]


async def test_what_one_request_cannot_copy_stays(client: S3Client, bucket: str, put: Put) -> None:
    put("in/a")
    watcher = moving(client, bucket)
    cleaner, [file] = cleaner_of(watcher), await loaded(watcher)
    large = LoadedFile(ticket="t0", content={**file.content, "size": 6 * 1024**3})
    assert await cleaner.copy([large]) == ["too_large"]


async def test_missing_rights_are_said_with_the_remedy(
    through_front: S3Client, front: Front, bucket: str, put: Put
) -> None:
    put("in/a")
    watcher = watching(through_front, bucket)
    cleaner, files = cleaner_of(watcher), await loaded(watcher)
    front.script = [lambda _request, _body: None, error(403, "AccessDenied", "no")]
    with pytest.raises(S3Refused, match=r"AccessDenied: .*let the connection's identity get and delete objects"):
        await cleaner.remove(files)


async def test_the_check_asks_whether_the_server_obeys_the_condition(
    client: S3Client, through_front: S3Client, front: Front, bucket: str
) -> None:
    def findings(checked: Any) -> dict[str, str]:
        return {finding.check: finding.level for finding in checked if finding.check == "clean_source"}

    assert findings(await watching(client, bucket).check()) == {"clean_source": "ok"}
    assert findings(await new_files(client, bucket).check()) == {}

    def obeys_not(request: web.Request, _body: bytes) -> web.Response | None:
        return web.Response(status=204) if request.method == "DELETE" else None

    front.script = [obeys_not] * 20
    assert findings(await watching(through_front, bucket).check()) == {"clean_source": "error"}
    front.script = [lambda _request, _body: None] + [error(403, "AccessDenied", "no")] * 20
    assert findings(await watching(through_front, bucket, mode="strict").check()) == {"clean_source": "error"}


async def test_the_check_says_that_jobs_need_to_read_the_target(
    client: S3Client, through_front: S3Client, front: Front, bucket: str
) -> None:
    def of_target(findings: Any) -> list[str]:
        return [finding.level for finding in findings if finding.check == "move_to"]

    assert of_target(await moving(client, bucket).check()) == ["ok"]
    assert of_target(await watching(client, bucket).check()) == []

    def denied(request: web.Request, _body: bytes) -> web.Response | None:
        return web.Response(status=403) if request.method == "HEAD" and "/done/" in request.path else None

    front.script = [denied] * 20
    assert of_target(await moving(through_front, bucket).check()) == ["warning"]


async def test_an_anonymous_connection_cleans_nothing(connect: Callable[..., S3Connection], bucket: str) -> None:
    anonymous = {"access_key_id": None, "secret_access_key": None, "anonymous": True}
    async with connect(**anonymous).open() as opened:
        with pytest.raises(Exception, match="an anonymous connection cannot clean its source"):
            await cleaner_of(watching(opened, bucket)).remove([])


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"prefix": "in/", "clean_source": {"move_to": "/done"}}, "must be s3://bucket/prefix/"),
        ({"prefix": "in/", "clean_source": {"move_to": "s3://bbb/done"}}, "must be s3://bucket/prefix/"),
        ({"prefix": "in/", "clean_source": {"move_to": "s3://bbb/in/done/"}}, "must not begin with the watched prefix"),
        ({"prefix": "in/", "clean_source": {"move_to": "s3://bbb/"}}, "must not begin with the watched prefix"),
        ({"clean_source": {"move_to": "s3://bbb/done/"}}, "must not begin with the watched prefix"),
    ],
)
def test_what_cannot_be_meant_is_refused(options: Any, sentence: str) -> None:
    with pytest.raises(ValidationError, match=sentence):
        S3NewFilesOptions.model_validate({"bucket": "bbb", **options})


def test_a_target_in_another_bucket_is_accepted() -> None:
    options = S3NewFilesOptions.model_validate({"bucket": "bbb", "clean_source": {"move_to": "s3://archive/"}})
    assert options.target is not None
    assert (options.target.bucket, options.target.prefix) == ("archive", "")
