"""Drivers that are started ahead of the tries that use them."""

from watcher.feature import Feature

FEATURE = Feature(
    name="warm",
    needs=frozenset({"readers", "spark_submit"}),
    refines={"spark-submit": "watcher.submit.warm.submitter.WarmSparkSubmit"},
)
