"""What a watcher of a bucket says about one object."""

from __future__ import annotations

import pytest

from tests.service.s3.conftest import Put, new_files
from tests.unit.triggers_files.dict_host import DictHost
from triggers.s3.listing import S3Client

pytestmark = pytest.mark.service


async def test_each_object_is_explained_by_the_bucket_and_the_position(client: S3Client, bucket: str, put: Put) -> None:
    host, options = DictHost(), {"start": "all", "prefix": "orders/", "match": "*.json"}
    put("orders/a.json", "orders/ü b.json", "orders/c.txt", "orders/x/d.json", "sales/e.json")
    await host.run(new_files(client, bucket, **options))
    put("orders/new.json", "orders/a.json.bak")

    async def state(item: str, **more: object) -> str:
        return (await new_files(client, bucket, **options, **more).explain(item, host.stored)).state

    assert await state("orders/a.json") == "reported"
    assert await state(f"s3://{bucket}/orders/ü b.json") == "reported"
    assert await state("orders/c.txt") == "not_matched"
    assert await state("orders/x/d.json") == "not_matched"
    assert await state("sales/e.json") == "outside"
    assert await state("orders/a.jso.json") == "missing"
    assert await state("orders/new.json") == "waiting"
    assert await state("orders/a.json", min_size=100) == "not_matched"
    explained = await new_files(client, bucket, **options).explain("orders/a.json", host.stored)
    assert explained.version == host.files[0]
    assert explained.written == host.files[0]["last_modified"]
