"""Servers that used to make files get lost silently: those with a wrong clock, and those without ETags."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import chain, cycle, repeat
from typing import Any

import pytest
import structlog

from tests.faulty_s3 import Faults, FaultyS3, faulty_s3, without_etags
from tests.servers import S3Server
from tests.service.s3.conftest import Put, new_files
from tests.unit.triggers_files.dict_host import DictHost
from triggers.errors import SourceUnavailable
from triggers.s3.connection import S3Connection
from triggers.s3.listing import S3Client

pytestmark = pytest.mark.service

DAY_AND_AN_HOUR, HOUR = 90_000.0, 3600.0


def skewed(server: FaultyS3, skews: Iterator[float]) -> None:
    server.skew = lambda: next(skews)


def connection(server: FaultyS3) -> S3Connection:
    values = {"endpoint_url": server.endpoint, "region": "us-east-1", "access_key_id": "a", "secret_access_key": "b"}
    return S3Connection.model_validate(values)


def keys(host: DictHost) -> Counter[str]:
    return Counter(file["key"] for file in host.files)


async def told_of_ten(client: S3Client, bucket: str, put: Put, **options: Any) -> tuple[DictHost, Any]:
    """A watcher that polls after each of ten new files, and once more."""
    host, trigger = DictHost(), new_files(client, bucket, start="all", **options)
    await host.run(trigger)
    for number in range(10):
        put(f"{number}")
        trigger = new_files(client, bucket, **options)
        await trigger.check()
        await host.run(trigger)
    await host.run(new_files(client, bucket, **options), polls=2)
    return host, trigger


async def test_one_date_a_day_ahead_loses_nothing_and_causes_a_warning(
    s3_server: S3Server, bucket: str, put: Put
) -> None:
    async with faulty_s3(s3_server, Faults(), page_size=1000, seed=1) as server, connection(server).open() as client:
        skewed(server, chain([0.0] * 5, [DAY_AND_AN_HOUR], repeat(0.0)))
        with structlog.testing.capture_logs() as logs:
            host, trigger = await told_of_ten(client, bucket, put)
    assert [line["bucket"] for line in logs if line["event"] == "s3.clocks_disagree"] == [bucket]
    assert keys(host) == Counter(map(str, range(10)))
    (finding,) = [finding for finding in trigger.findings if finding.check == "clock"]
    assert "nothing is lost" in finding.message
    assert "NTP" in finding.remedy


async def test_a_gateway_an_hour_ahead_loses_nothing_and_causes_a_warning(
    s3_server: S3Server, bucket: str, put: Put
) -> None:
    async with faulty_s3(s3_server, Faults(), page_size=1000, seed=1) as server, connection(server).open() as client:
        skewed(server, cycle([0.0, HOUR]))
        host, trigger = await told_of_ten(client, bucket, put, lateness="10m")
    assert keys(host) == Counter(map(str, range(10)))
    assert "clock" in {finding.check for finding in trigger.findings}


async def test_a_start_at_now_waits_for_a_clock_that_all_responses_agree_on(
    s3_server: S3Server, bucket: str, put: Put
) -> None:
    put("old")
    async with faulty_s3(s3_server, Faults(), page_size=1000, seed=1) as server, connection(server).open() as client:
        skewed(server, cycle([DAY_AND_AN_HOUR, 0.0]))
        host = DictHost()
        with pytest.raises(SourceUnavailable, match="waits until three agree"):
            await host.run(new_files(client, bucket))
        assert host.commits == 0
        skewed(server, repeat(120.0))  # later than "old"
        for _ in range(2):
            await new_files(client, bucket).check()
        await host.run(new_files(client, bucket))
        put("new")
        await host.run(new_files(client, bucket), polls=2)
    assert keys(host) == Counter(["new"])


@pytest.mark.parametrize("mode", ["window", "strict"])
async def test_without_etags_another_size_is_another_version(
    s3_server: S3Server, bucket: str, put: Put, mode: str
) -> None:
    """The object is overwritten within the second in which it was written, or later: S3 shows whole seconds."""
    async with faulty_s3(s3_server, Faults(), page_size=1000, seed=1) as server, connection(server).open() as client:
        server.page = without_etags
        host = DictHost()
        for size in range(1, 6):
            put("a", body=b"x" * size)
            trigger = new_files(client, bucket, start="all", mode=mode)
            await host.run(trigger, polls=2)
    assert [finding.check for finding in trigger.findings] == ["etags"]
    assert [file["size"] for file in host.files] == [1, 2, 3, 4, 5]
    assert {file["etag"] for file in host.files} == {""}
