"""A reading that misses a file asks once, and goes on without what newer versions supersede: `r.read` and `builtin:ingest`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.contract.submitters import ended, log_of
from tests.servers import S3Server
from tests.service.spark.test_reading import put
from tests.unit.sdk.execution_server import event, running_execution_server
from tests.unit.submit.plain import spark_submit
from watcher.submit.base import Submission

pytestmark = [pytest.mark.spark, pytest.mark.service]
JOB = """
import json, pathlib
from asset_job import run
from asset_job.ingest.job import Ingest
from asset_job.ingest.plan import IngestJobOptions

found = {}
with run() as r:
    events = r.triggering_asset_events
    frame = r.read(events.files(), format="json")
    found["read"] = sorted(row["id"] for row in frame.collect())
    found["superseded"] = [file["key"] for file in r.triggering_asset_events.superseded]
    r.triggering_asset_events = events
    Ingest(run=r, options=IngestJobOptions(target=TARGET, schema="id long")).execute()
    found["loaded"] = sorted(row["id"] for row in r.spark.read.parquet(TARGET).collect())
    pathlib.Path(RESULT).write_text(json.dumps(found))
"""


async def test_what_newer_versions_supersede_is_left_out_once_a_file_is_missing(
    s3_server: S3Server, bucket: str, new_try: Callable[..., Submission], tmp_path: Path
) -> None:
    old, same = put(s3_server, bucket, "hot.json", b'{"id": 1}'), put(s3_server, bucket, "same.json", b'{"id": 2}')
    put(s3_server, bucket, "hot.json", b'{"id": 33}')
    result, target = tmp_path / "result.json", tmp_path / "orders"
    lake = {"access_key_id": s3_server.access_key, "secret_access_key": s3_server.secret_key, "region": "us-east-1"}
    lake |= {"type": "s3", "endpoint_url": s3_server.endpoint, "addressing_style": "path"}
    with running_execution_server() as daemon:
        events = [event(1, "landing", "2026-11-20T09:00:00Z", files=[old, same])]
        outlet = {"name": "orders", "uri": target.as_uri()}
        daemon.claim = {"triggering_asset_events": {"landing": events}, "outlets": [outlet]}
        daemon.refusals["superseded"] = (200, {"superseded": ["hot.json"]})
        submitter = spark_submit(tmp_path)
        program = f"RESULT, TARGET = {str(result)!r}, {str(target)!r}\n{JOB}"
        handle = await submitter.submit(
            new_try(program, context=daemon.context(connections={"lake": lake}), master="local[2]")
        )
        status = await ended(submitter, handle)
        assert status.exit_code == 0, await log_of(submitter, handle)
        asked = [request.body for request in daemon.requests if request.path == "superseded"]
    assert json.loads(result.read_text()) == {"read": [2], "superseded": ["hot.json"], "loaded": [2]}
    assert asked == 2 * [{"paths": ["hot.json", "same.json"]}]
