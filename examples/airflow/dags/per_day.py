"""Runs once for each partition key that comes with an event of Asset Watcher."""

from airflow.sdk import Asset, PartitionedAssetTimetable, dag, task


@dag(schedule=PartitionedAssetTimetable(assets=Asset("orders_of_days")))
def per_day():
    @task
    def show(dag_run=None):
        print("new files of", dag_run.partition_key)

    show()


per_day()
