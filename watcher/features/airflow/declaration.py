"""What the database has to know of `settings.airflow`."""

from __future__ import annotations

from functools import partial

from config.features.airflow.settings import AirflowPart
from config.models import Configuration
from store.catalog import neighbour
from store.catalog.catalog_sync import Applies
from store.catalog.neighbour import DeclaredForward


def declare(configuration: Configuration) -> Applies:
    """Return what mirrors the assets that are forwarded, and those that are listened to."""
    airflow = configuration.settings.part(AirflowPart).airflow
    if airflow is None:
        return neighbour.apply
    forwards = [
        DeclaredForward(asset=name, target=forward.asset, with_partition_key=forward.partition_key)
        for name, forward in airflow.forwards.items()
    ]
    return partial(neighbour.apply, forwards=forwards, listens=tuple(airflow.listen))
