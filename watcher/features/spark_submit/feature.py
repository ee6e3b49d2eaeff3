"""Drivers by spark-submit, on this machine or on YARN."""

from watcher.feature import Feature

FEATURE = Feature(
    name="spark_submit",
    submitters={"spark-submit": "watcher.submit.spark_submit.SparkSubmit"},
    commands={"spark": "watcher.features.spark_submit.commands.spark"},
    help_groups={"spark": "operate"},
)
