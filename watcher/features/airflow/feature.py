"""The neighbouring Airflow: our events sent there, its events read once each."""

from watcher.feature import Feature, FeatureService

FEATURE = Feature(
    name="airflow",
    needs=frozenset({"outbox"}),
    settings="config.features.airflow.settings.AirflowPart",
    tables="store.features.airflow.tables.TABLES",
    keeps_events="store.features.airflow.forwarding.UNSENT",
    declares="watcher.features.airflow.declaration.declare",
    after_events="store.features.airflow.forwarding.after_events",
    services=(FeatureService(name="Airflow", build="watcher.features.airflow.service.build", scope="scheduler"),),
    checks="watcher.features.airflow.check.check",
)
