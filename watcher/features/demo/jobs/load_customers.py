"""Loads the rows of this run's events into a table. The events carry the rows: the watcher has `columns`."""

from __future__ import annotations

import sys

from asset_job import run

with run() as r:
    table = sys.argv[1]
    rows = [(row["id"], row["email"], row["city"]) for row in r.triggering_asset_events.rows()]
    customers = r.spark.createDataFrame(rows, "id long, email string, city string")
    customers.write.mode("overwrite").parquet(f"{table}/run={r.run_id.replace(':', '.')}")
    by_city = {row["city"]: row["count"] for row in customers.groupBy("city").count().collect()}
    with r.asset_store["customers_table"].transaction() as t:
        t.increment("rows_loaded", len(rows))
        t["last_run_summary"] = {"rows": len(rows), "by_city": by_city, "finished_at": r.now()}
    r.outlet_events["customers_table"].extra = {"rows_loaded": len(rows)}
