"""Does what most jobs do, so that the classes it loads can be archived. spark-submit runs it with an empty folder as argument."""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import SparkSession, functions


def main(folder: Path) -> None:
    spark = SparkSession.builder.getOrCreate()
    (folder / "in.json").write_text('{"id": 1, "amount": 2.5, "ts": "2026-01-01T00:00:00Z", "name": "a"}\n')
    (folder / "in.csv").write_text("id,amount\n1,2.5\n2,3.5\n")
    rows = spark.read.json(str(folder / "in.json"), schema="id long, amount double, ts timestamp, name string")
    more = spark.read.csv(str(folder / "in.csv"), header=True, inferSchema=True)
    joined = rows.join(more, "id", "left").withColumn("day", functions.to_date("ts"))
    joined.select("id", "name", "day").write.mode("overwrite").partitionBy("day").parquet(str(folder / "out"))
    spark.read.parquet(str(folder / "out")).groupBy("day").agg(functions.count("*"), functions.max("id")).collect()
    spark.sql("SELECT count(DISTINCT id) FROM range(10)").collect()
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
