"""Joins the orders and customers that came since the last run, and makes them this run's part of the table `revenue`."""

from pathlib import Path

from pyspark.sql.functions import sum as total

from asset_job import run

TABLE = Path(__file__).resolve().parent.parent / "revenue"

with run() as r:
    orders = r.read(r.triggering_asset_events["orders"], schema="id long, customer long, amount double")
    customers = r.read(r.triggering_asset_events["customers"], schema="id long, name string")
    joined = orders.join(customers, orders.customer == customers.id)
    out = r.append(joined.groupBy("name").agg(total("amount").alias("amount")), str(TABLE))
    r.outlet_events["revenue"].extra = {"row_count": out.rows}
