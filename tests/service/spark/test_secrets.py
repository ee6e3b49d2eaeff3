"""Credentials of a job's connections are nowhere that Spark shows: not in its UI's REST, not in its event log."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.contract.submitters import ended, log_of
from tests.service.spark.cluster import Cluster
from tests.unit.submit.plain import spark_submit
from watcher.submit.base import Submission
from watcher.submit.command import SMALL
from watcher.submit.runtime import spark_home_of

pytestmark = [pytest.mark.spark, pytest.mark.slow]

LAKE = {
    "type": "s3",
    "endpoint_url": "http://127.0.0.1:9000",
    "access_key_id": "the-access-key",
    "secret_access_key": "the-secret-key",
}
SHOP = {"type": "postgres", "dsn": "postgresql://me:the-password@db/shop"}
PROGRAM = """
import urllib.request
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
hadoop = spark.sparkContext._jsc.hadoopConfiguration()
print(hadoop.get("fs.s3a.endpoint"), hadoop.get("fs.s3a.secret.key"), spark.conf.get("spark.hadoop.fs.s3a.secret.key", None))
spark.range(3).count()
address = f"{spark.sparkContext.uiWebUrl}/api/v1/applications/{spark.sparkContext.applicationId}/environment"
open(sys.argv[2], "wb").write(urllib.request.urlopen(address, timeout=30).read())
spark.stop()
"""


async def test_spark_shows_no_credentials(new_try: Callable[..., Submission], cluster: Cluster, tmp_path: Path) -> None:
    """On a cluster, where more is shown than with a local master."""
    shown, events = tmp_path / "environment.json", tmp_path / "events"
    events.mkdir()
    submission = new_try(
        PROGRAM.replace("sys.argv[2]", repr(str(shown))),
        master=cluster.master,
        jars=(str(next((spark_home_of(sys.executable) / "jars").glob("commons-text-*.jar"))),),
        conf={
            "spark.eventLog.enabled": "true",
            "spark.eventLog.compress": "false",
            "spark.eventLog.dir": str(events),
            "spark.executor.memory": "512m",
            "spark.executor.extraJavaOptions": " ".join(SMALL),
            "spark.redaction.regex": "nothing",
        },
        env={"SPARK_LOCAL_IP": "127.0.0.1"},
        context={"token": "the-token", "connections": {"lake": LAKE, "shop": SHOP}},
    )
    submitter = spark_submit(tmp_path)
    handle = await submitter.submit(submission)
    status = await ended(submitter, handle)
    log = await log_of(submitter, handle)
    assert (status.exit_code, status.reason) == (0, ""), log
    assert "http://127.0.0.1:9000 the-secret-key None" in log, "the job cannot reach its bucket"
    told = shown.read_bytes() + b"".join(file.read_bytes() for file in events.rglob("*") if file.is_file())
    assert told.count(b"jdbc:postgresql://db:5432/shop") >= 2
    assert [
        secret for secret in (b"the-access-key", b"the-secret-key", b"the-password", b"the-token") if secret in told
    ] == []
    left = b"".join(file.read_bytes() for file in submitter.folder(submission.key).path.rglob("*") if file.is_file())
    assert b"the-secret-key" not in left
