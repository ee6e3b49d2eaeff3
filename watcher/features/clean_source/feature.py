"""Files that every job has loaded are moved or deleted."""

from watcher.feature import Feature, FeatureService

FEATURE = Feature(
    name="clean_source",
    needs=frozenset({"files"}),
    tables="store.features.clean_source.tables.TABLES",
    declares="watcher.features.clean_source.declaration.declare",
    after_events="store.features.clean_source.recording.after_events",
    changed_items="store.features.clean_source.removed_files.CHANGES",
    count_cleaned="store.features.clean_source.cleanings.removed_since",
    checks="watcher.features.clean_source.check.check",
    services=(FeatureService(name="cleaning", build="watcher.features.clean_source.service.build", scope="triggerer"),),
)
