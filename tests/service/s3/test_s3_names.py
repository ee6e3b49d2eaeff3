"""Objects with any key that S3 allows are emitted under their names; those that no event can name stop the watcher, or are rejected."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterator
from urllib.parse import unquote_to_bytes

import pytest

from tests.faulty_s3 import Faults, FaultyS3, faulty_s3
from tests.servers import S3Server
from tests.service.s3.conftest import Put, new_files
from tests.unit.triggers_files.dict_host import DictHost
from triggers.file_scan.trigger import UnnamedFile
from triggers.s3.connection import S3Connection
from triggers.s3.failures import S3Refused
from triggers.s3.listing import S3Client

pytestmark = pytest.mark.service

BEFORE = [
    "\x01control\x1f",
    " \ttab and \r",  # moto takes no \n
    "/begins with a slash",
    "\\back\\slash",
    "a\x7f",
    "b\u2028\u2029",
    "c\u00a0\u200d\ufeff",
    "e\u0301 is not \u00e9",
    "k" * 1024,
]
BEHIND = ["z", "z\x00", "\u65e5" * 341, "\uffff", "\U0001f600" * 256]
NO_TEXT = {
    "odd/1": "odd/%C0%AF",  # `/` in too many bytes
    "odd/2": "odd/%C3%28",
    "odd/3": "odd/%ED%A0%80",  # a lone surrogate
    "odd/4": "odd/%FF",
}
SHOWN = [unquote_to_bytes(key).decode(errors="backslashreplace") for key in NO_TEXT.values()]


def with_keys_of_no_text(page: bytes) -> bytes:
    """Put keys that are no text into a page: some servers keep such keys, and moto does not."""
    for key, listed in NO_TEXT.items():
        page = page.replace(f"<Key>{key}</Key>".encode(), f"<Key>{listed}</Key>".encode())
    return page


@pytest.fixture
def bucket(s3_server: S3Server, bucket: str) -> Iterator[str]:
    """Delete the objects one by one: these keys cannot be named in a request, which would not be valid XML."""
    yield bucket
    for key in (*BEFORE, *NO_TEXT, *BEHIND):
        s3_server.client.delete_object(Bucket=bucket, Key=key)


@pytest.fixture
async def server(s3_server: S3Server) -> AsyncIterator[FaultyS3]:
    async with faulty_s3(s3_server, Faults(), page_size=7, seed=1) as faulty:
        faulty.page = with_keys_of_no_text
        yield faulty


@pytest.fixture
async def odd_client(server: FaultyS3) -> AsyncIterator[S3Client]:
    values = {"endpoint_url": server.endpoint, "region": "us-east-1", "access_key_id": "a", "secret_access_key": "b"}
    async with S3Connection.model_validate(values).open() as client:
        yield client


def keys(host: DictHost) -> Counter[str]:
    return Counter(file["key"] for file in host.files)


@pytest.mark.parametrize("mode", ["window", "strict"])
async def test_a_watcher_stops_at_a_name_that_is_not_text_and_goes_on_after_a_rename(
    server: FaultyS3, odd_client: S3Client, bucket: str, put: Put, mode: str
) -> None:
    host = DictHost()
    put(*BEFORE, *NO_TEXT, *BEHIND)
    for _ in range(2):
        with pytest.raises(
            UnnamedFile, match=r"no event can name the file odd/\\xc0\\xaf: its key holds bytes that are not"
        ):
            await host.run(new_files(odd_client, bucket, start="all", mode=mode))
        assert keys(host) == Counter(BEFORE)
    server.page = bytes
    await host.run(new_files(odd_client, bucket, start="all", mode=mode), polls=2)
    assert keys(host) == Counter([*BEFORE, *NO_TEXT, *BEHIND])


async def test_a_page_without_a_key_that_is_text_is_reported(
    server: FaultyS3, odd_client: S3Client, bucket: str, put: Put
) -> None:
    put(*NO_TEXT, *BEHIND)
    server.page_size = 2
    with pytest.raises(
        S3Refused, match=r"NoText: 2 keys in a row, from odd/\\xc0\\xaf on, hold bytes .*; rename or delete"
    ):
        await DictHost().run(new_files(odd_client, bucket, start="all", on_bad_row="report"))


@pytest.mark.parametrize("mode", ["window", "strict"])
async def test_names_that_are_not_text_are_rejected_until_they_are_changed(
    server: FaultyS3, odd_client: S3Client, bucket: str, put: Put, mode: str
) -> None:
    host, options = DictHost(), {"start": "all", "mode": mode, "on_bad_row": "report"}
    put(*BEFORE, *NO_TEXT, *BEHIND)
    await host.run(new_files(odd_client, bucket, **options), polls=2)
    for retried in (False, True):
        host.retried = retried
        await host.run(new_files(odd_client, bucket, **options))
        assert keys(host) == Counter([*BEFORE, *BEHIND])
        assert [item.key for item in host.rejected] == SHOWN
        assert [key for event in host.events for key in event.payload.get("rejected", ())] == SHOWN  # once
    server.page, host.retried = bytes, True
    await host.run(new_files(odd_client, bucket, **options), polls=2)
    assert (keys(host), host.rejected) == (Counter([*BEFORE, *NO_TEXT, *BEHIND]), [])
