"""Jobs that take each partition by itself, once it is complete."""

from watcher.feature import Feature

FEATURE = Feature(
    name="partitions",
    tables="store.features.partitions.tables.TABLES",
    applies="store.features.partitions.applying.forget_groups",
    planners={"per_partition": "watcher.scheduling.partition_planner.PartitionPlanner"},
)
