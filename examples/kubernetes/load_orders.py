"""Loads the CSV files of this run's events into a Parquet table, each row once."""

from asset_job import run

with run() as r:
    files = r.triggering_asset_events.files()
    orders = r.read(files, schema="id long, customer string, amount double")
    r.append(orders, "orders")
    print(f"{orders.count()} rows of {len(files)} files loaded")
