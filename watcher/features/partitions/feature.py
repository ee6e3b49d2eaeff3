"""Jobs that take each partition by itself, once it is complete."""

from watcher.feature import Feature

FEATURE = Feature(
    name="partitions",
    planners={"per_partition": "watcher.scheduling.partition_planner.PartitionPlanner"},
)
