"""Writes customers; the event of its outlet becomes Asset Watcher's, and starts a PySpark job there."""

from airflow.sdk import Asset, dag, task


@dag(schedule=None)
def export():
    @task(outlets=[Asset("customers")])
    def write(*, outlet_events):
        outlet_events[Asset("customers")].extra = {"rows": 42}

    write()


export()
