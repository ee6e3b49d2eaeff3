"""What is wrong, sent to a web address or a mail server, once for each change."""

from watcher.feature import Feature, FeatureService

FEATURE = Feature(
    name="alerts",
    needs=frozenset({"outbox", "problems"}),
    settings="config.features.alerts.settings.AlertsPart",
    tables="store.features.alerts.tables.TABLES",
    services=(FeatureService(name="alerts", build="watcher.features.alerts.service.build", scope="scheduler"),),
)
