"""Appends the rows of this run's new files to the table `orders`; a later try of the same run replaces them."""

from asset_job import run

with run() as r:
    files = r.triggering_asset_events.files("landing_orders")
    r.append(r.read(files, schema="id long, amount double"), "/data/orders")
