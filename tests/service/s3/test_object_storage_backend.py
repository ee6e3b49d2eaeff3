"""The shipped worker-side backend on an S3 server, with the credentials that AWS's libraries find."""

from __future__ import annotations

import pytest

from asset_job.backends import AssetScope, TaskScope
from asset_job.storage import ObjectStorageStateBackend
from tests.servers import S3Server

pytestmark = pytest.mark.service


@pytest.mark.parametrize("compression", [None, "gzip"])
def test_values_keep_their_reference_in_a_bucket_until_they_are_purged(
    s3_server: S3Server, bucket: str, monkeypatch: pytest.MonkeyPatch, compression: str | None
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_server.endpoint)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", s3_server.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", s3_server.secret_key)
    monkeypatch.setenv("AWS_DEFAULT_REGION", s3_server.region)
    backend = ObjectStorageStateBackend(url=f"s3://{bucket}/state", compression=compression)
    task = TaskScope(dag_id="load", run_id="manual__2026-11-20T00:00:00+00:00", task_id="load")
    orders = AssetScope(name="orders", uri="file:///orders")

    def objects() -> list[str]:
        return [found["Key"] for found in s3_server.client.list_objects_v2(Bucket=bucket).get("Contents", [])]

    references = [
        backend.serialize_task_state_store_to_ref(value={"n": n}, key="a/b ü", scope=task) for n in (1, 2)
    ] + [backend.serialize_asset_state_store_to_ref(value="x" * 100_000, key="k", scope=orders)]
    assert references[0] == references[1] != references[2]
    assert sorted(objects()) == sorted({str(one).removeprefix(f"s3://{bucket}/") for one in references})
    assert backend.deserialize_task_state_store_from_ref(references[0]) == {"n": 2}
    assert backend.deserialize_asset_state_store_from_ref(references[2]) == "x" * 100_000

    for _ in range(2):
        backend.purge_task_state_store(references[0])
        backend.purge_asset_state_store(references[2])
    assert objects() == []
