"""What `watcher check --connect` says of the neighbouring Airflow."""

from __future__ import annotations

from functools import partial

from config.features.airflow.settings import AirflowPart
from config.models import Configuration
from store.database import Database
from watcher.configuration.findings import Findings, judged
from watcher.outbound.airflow.checks import check as findings_of


async def check(configuration: Configuration, database: Database | None) -> Findings:  # noqa: ARG001  it needs none
    """Check that Airflow answers, and is what the configuration says."""
    settings = configuration.settings.part(AirflowPart).airflow
    assert settings is not None  # noqa: S101  without them the feature is not configured
    remedy = "check settings.airflow.base_url, and that the network leads there"
    return Findings(others=await judged(partial(findings_of, settings), "Airflow did not answer", remedy))
