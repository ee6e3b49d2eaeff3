"""Runs when Asset Watcher has seen new files: its event of `landing_orders` has become Airflow's."""

from airflow.sdk import Asset, dag, task


@dag(schedule=[Asset("landing_orders")])
def report():
    @task
    def show(triggering_asset_events=None):
        for event in triggering_asset_events[Asset("landing_orders")]:
            ours = event.extra["asset_watcher"]
            print(ours["event_id"], event.extra["count"], "new files")

    show()


report()
