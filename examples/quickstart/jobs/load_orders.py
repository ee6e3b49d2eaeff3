"""Loads the CSV files of this run's events into the Parquet table `orders`.

Each run owns one partition and overwrites it, so that a retry leaves each row once.
"""

from pathlib import Path

from pyspark.sql.functions import lit

from asset_job import run

TABLE = Path(__file__).resolve().parent.parent / "orders"
SCHEMA = "id long, customer string, amount double"

with run() as r:
    files = r.triggering_asset_events.files()
    orders = r.read(files, schema=SCHEMA).withColumn("run_id", lit(r.run_id))
    orders.write.partitionBy("run_id").option("partitionOverwriteMode", "dynamic").parquet(str(TABLE), mode="overwrite")

    rows = orders.count()
    r.asset_store["orders"].set("last_load", {"files": len(files), "rows": rows, "completed_at": r.now()})
    r.outlet_events["orders"].extra = {"row_count": rows}
    print(f"{rows} rows of {len(files)} files loaded")
