"""`s3.new_files` against an S3 server over HTTP."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
import structlog

from tests.servers import S3Server
from tests.service.s3.conftest import Front, Put, error, new_files, page
from tests.unit.triggers_files.dict_host import DictHost
from triggers.file_scan.versions import SECOND, parse_moment
from triggers.s3.listing import S3Client
from triggers.s3.objects import Selection
from triggers.s3.pages import Row

pytestmark = pytest.mark.service

ODD_KEYS = ["a b", "a+b", "100%.csv", "%41", "ü/ñ.json", "q&<>'\"*~(3)", "x=1&y=2", "日本/", "a//b", " ", "ends with ?"]


def keys(host: DictHost) -> list[str]:
    return [file["key"] for file in host.files]


@pytest.mark.parametrize("mode", ["window", "strict"])
async def test_each_object_comes_once_over_restarts(client: S3Client, bucket: str, put: Put, mode: str) -> None:
    host = DictHost()
    put("orders/a.json", "orders/x/b.json", "orders/c.txt", "other/d.json")
    options = {"start": "all", "mode": mode, "prefix": "orders/", "match": "**/*.json"}
    await host.run(new_files(client, bucket, **options), polls=2)
    put("orders/e.json")
    await host.run(new_files(client, bucket, **options), polls=2)
    assert keys(host) == ["orders/a.json", "orders/x/b.json", "orders/e.json"]


@pytest.mark.parametrize("mode", ["window", "strict"])
async def test_another_prefix_and_pattern_keep_what_was_handled(
    client: S3Client, bucket: str, put: Put, mode: str
) -> None:
    host = DictHost()
    put("orders/a.json", "orders/b.csv", "other/a.json")
    options = {"start": "all", "mode": mode, "min_age": "0s"}
    before = new_files(client, bucket, **options, prefix="orders/", match="*.json")
    await host.run(before)
    put("orders/meanwhile.json")
    trigger = new_files(client, bucket, **options)
    assert trigger.reselects(before.source_identity())
    assert host.stored is not None
    assert "(3 now)" in await trigger.decisions(host.stored)
    host.commit(trigger.rewound(host.stored, "here"))
    await host.run(new_files(client, bucket, **options), polls=2)
    assert keys(host) == ["orders/a.json", "orders/b.csv", "orders/meanwhile.json", "other/a.json"]
    elsewhere = new_files(client, "another-bucket", **options)
    assert not elsewhere.reselects(before.source_identity())


async def test_the_shape_of_an_event_is_fixed(client: S3Client, bucket: str, put: Put, s3_server: S3Server) -> None:
    put("a", body=b"hello")
    host = DictHost()
    (event,) = await host.run(new_files(client, bucket, start="all"))
    head = s3_server.client.head_object(Bucket=bucket, Key="a")
    modified = f"{head['LastModified']:%Y-%m-%dT%H:%M:%SZ}"
    named = {"bucket": bucket, "key": "a", "size": 5, "etag": head["ETag"].strip('"'), "last_modified": modified}
    assert event.payload == {"files": [named]}
    assert event.count == 1
    assert event.watermark["from"] is None
    a_second = 1_000_000  # as well as its clock is known
    assert parse_moment(str(event.watermark["to"])) > parse_moment(modified) - a_second


async def test_a_start_at_now_emits_only_what_comes_later(
    through_front: S3Client, front: Front, bucket: str, put: Put
) -> None:
    put("old")
    front.script += [page(date="Thu, 01 Jan 2060 00:00:00 GMT")] * 4  # so that "old" is older by this server's clock
    host = DictHost()
    assert await host.run(new_files(through_front, bucket, lateness="36500d")) == []
    put("new")
    await host.run(new_files(through_front, bucket, lateness="36500d"))
    assert keys(host) == ["new"]


async def test_an_overwritten_object_comes_again(client: S3Client, bucket: str, put: Put) -> None:
    host = DictHost()
    put("a", body=b"1")
    await host.run(new_files(client, bucket, start="all"))
    put("a", body=b"22")
    await host.run(new_files(client, bucket))
    assert [file["size"] for file in host.files] == [1, 2]


@pytest.mark.parametrize("mode", ["window", "strict"])
async def test_keys_of_all_kinds_come_once_page_by_page(
    client: S3Client, bucket: str, put: Put, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """Each key is the place to go on after, once."""
    monkeypatch.setattr("triggers.s3.listing.MAX_KEYS", 1)
    put(*ODD_KEYS)
    host = DictHost()
    await host.run(new_files(client, bucket, start="all", mode=mode, directory_markers=True), polls=2)
    assert keys(host) == sorted(ODD_KEYS)
    assert host.commits >= len(ODD_KEYS)


@pytest.mark.slow
async def test_more_objects_than_a_page_holds(client: S3Client, bucket: str, put: Put) -> None:
    wanted = [f"{number:04}" for number in range(1005)]
    put(*wanted)
    host = DictHost()
    events = await host.run(new_files(client, bucket, start="all", batch={"max_files": 400}))
    assert [event.count for event in events] == [400, 400, 200, 5]
    assert keys(host) == wanted
    assert host.commits == 2


async def test_a_first_scan_goes_on_where_it_was_killed(
    through_front: S3Client, front: Front, bucket: str, put: Put, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("triggers.s3.listing.MAX_KEYS", 2)
    put("a", "b", "c", "d", "e")
    host = DictHost()
    await host.run_until_commit(new_files(through_front, bucket, start="all"), commits=1)
    assert keys(host) == ["a", "b"]
    assert host.stored is not None
    began = parse_moment(str(host.stored.state["began"]))
    front.requests.clear()
    await host.run(new_files(through_front, bucket, start="all"))
    assert keys(host) == ["a", "b", "c", "d", "e"]
    assert [request.query["start-after"] for request in front.requests] == ["b", "d"]
    assert all("continuation-token" not in request.query for request in front.requests)
    assert parse_moment(str(host.stored.state["horizon"])) == began - 86_401 * SECOND


async def test_an_object_written_behind_the_cursor_is_found_by_the_next_scan(
    client: S3Client, bucket: str, put: Put, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("triggers.s3.listing.MAX_KEYS", 2)
    put("b", "c", "d")
    host = DictHost()
    await host.run_until_commit(new_files(client, bucket, start="all"), commits=1)
    put("a")
    await host.run(new_files(client, bucket), polls=2)
    assert keys(host) == ["b", "c", "d", "a"]


async def test_an_upload_that_shows_its_beginning_is_found(
    through_front: S3Client, front: Front, bucket: str, put: Put
) -> None:
    """AWS lists a finished multipart upload with the time it was initiated: behind what was already emitted."""
    put("recent")
    host = DictHost()
    await host.run(new_files(through_front, bucket, start="all"))
    put("upload")
    host_time = str(host.files[0]["last_modified"]).removesuffix("Z").encode()
    front.script.append(page(lambda body: body.replace(host_time[:10], b"2000-01-01")))
    found = await host.run(new_files(through_front, bucket, start="all", lateness="24h"))
    assert found == [], "later than the lateness"
    strict = DictHost()
    await strict.run(new_files(through_front, bucket, start="all", mode="strict"))
    assert keys(strict) == ["recent", "upload"]


async def test_an_empty_bucket_has_a_position_and_then_writes_nothing(client: S3Client, bucket: str) -> None:
    host = DictHost()
    await host.run(new_files(client, bucket), polls=5)
    assert host.commits == 1
    assert isinstance(host.watermark, dict)
    assert (host.watermark["seen"], host.watermark["scan"]) == (0, None)


async def test_the_literal_start_of_the_match_narrows_the_listing(
    through_front: S3Client, front: Front, bucket: str, put: Put
) -> None:
    put("orders/2026/a.json", "orders/2025/b.json")
    host = DictHost()
    await host.run(new_files(through_front, bucket, start="all", prefix="orders/", match="2026/**/*.json"))
    assert keys(host) == ["orders/2026/a.json"]
    assert front.requests[0].query["prefix"] == "orders/2026/"


async def test_the_check_of_a_readable_bucket_is_ok(client: S3Client, bucket: str) -> None:
    findings = await new_files(client, bucket).check()
    assert [(finding.check, finding.level) for finding in findings] == [("listing", "ok"), ("uploads", "ok")]


async def test_the_identity_names_the_source(client: S3Client, bucket: str, s3_server: S3Server) -> None:
    assert new_files(client, bucket, prefix="p/", match="*.json", min_size=3).source_identity() == {
        "trigger": "s3.new_files",
        "endpoint": s3_server.endpoint,
        "bucket": bucket,
        "prefix": "p/",
        "match": "*.json",
        "regex": None,
        "min_size": 3,
    }


@pytest.mark.parametrize(
    ("options", "days", "level"),
    [({}, 7, "warning"), ({"lateness": "7d"}, 7, "ok"), ({}, None, "ok"), ({"mode": "strict"}, 7, None)],
)
async def test_the_check_compares_lateness_with_the_bucket_rule_for_uploads(
    client: S3Client, bucket: str, s3_server: S3Server, options: dict[str, Any], days: int | None, level: str | None
) -> None:
    if days is not None:
        rule = {"Status": "Enabled", "Filter": {}, "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": days}}
        s3_server.client.put_bucket_lifecycle_configuration(Bucket=bucket, LifecycleConfiguration={"Rules": [rule]})
    found = {finding.check: finding for finding in await new_files(client, bucket, **options).check()}
    assert found["listing"].level == "ok"
    assert (found["uploads"].level if "uploads" in found else None) == level
    if level == "warning":
        assert "lateness: 7d" in found["uploads"].remedy


async def test_a_bucket_is_watched_although_its_rules_cannot_be_read(
    through_front: S3Client, front: Front, bucket: str
) -> None:
    front.script += [page(), error(403, "AccessDenied")]
    (finding,) = await new_files(through_front, bucket).check()
    assert (finding.check, finding.level) == ("listing", "ok")


async def test_a_long_scan_logs_its_progress(
    client: S3Client, bucket: str, put: Put, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("triggers.s3.listing.MAX_KEYS", 2)
    monkeypatch.setattr("triggers.file_scan.trigger.SILENCE", 0)
    put("a", "b", "c", "d", "e")
    with structlog.testing.capture_logs() as logs:
        await DictHost().run(new_files(client, bucket))
    told = [(line["count"], line["key"]) for line in logs if line["event"] == "watcher.scanning"]
    assert told == [(2, "b"), (4, "d")]


async def test_a_strict_poll_computes_fingerprints_of_what_changed_only(
    client: S3Client, bucket: str, put: Put, monkeypatch: pytest.MonkeyPatch
) -> None:
    computed = []
    compute = Selection.fingerprint

    def counting(selection: Selection, row: Row, *, url_encoded: bool) -> int:
        computed.append(row[0])
        return compute(selection, row, url_encoded=url_encoded)

    monkeypatch.setattr(Selection, "fingerprint", counting)
    put("a", "b", "c.txt")
    host = DictHost()
    trigger = new_files(client, bucket, mode="strict", match="?", interval="1h")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(host.run_for_ever, trigger)
        await host.until(lambda: host.polls == 1)
        put("d")
        trigger.wake()
        await host.until(lambda: host.polls == 2)
        tasks.cancel_scope.cancel()
    assert computed == [b"a", b"b", b"c.txt", b"d"]
