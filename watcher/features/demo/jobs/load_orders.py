"""Loads the files of this run's events into a table: exactly those files, each run into its own part."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping

from asset_job import run


def read(files: Iterable[dict[str, str]], lake: Mapping[str, str]) -> Iterator[tuple[int, str, float]]:
    """Runs on the executors: one client for all files of a partition."""
    import boto3  # noqa: PLC0415  where the files are read

    client = boto3.client(
        "s3",
        endpoint_url=lake["endpoint_url"],
        region_name=lake["region"],
        aws_access_key_id=lake["access_key_id"],
        aws_secret_access_key=lake["secret_access_key"],
    )
    for file in files:
        body = client.get_object(Bucket=file["bucket"], Key=file["key"])["Body"].read()
        for line in body.decode().splitlines():
            order = json.loads(line)
            yield order["order"], order["city"], order["amount"]


with run() as r:
    table = sys.argv[1]
    lake = r.connections["lake"]
    files = r.spark.sparkContext.parallelize(r.triggering_asset_events.files(), numSlices=2)
    orders = r.spark.createDataFrame(
        files.mapPartitions(lambda part: read(part, lake)), "id long, city string, amount double"
    )
    orders.write.mode("overwrite").parquet(f"{table}/run={r.run_id.replace(':', '.')}")
    count = len(r.triggering_asset_events.files())
    with r.asset_store["orders_table"].transaction() as t:
        t.increment("files_loaded", count)
        t["last_run_summary"] = {"files": count, "finished_at": r.now()}
    r.outlet_events["orders_table"].extra = {"files_loaded": count}
