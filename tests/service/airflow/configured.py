"""The `settings.airflow` that the tests use."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from pydantic import SecretStr

from config.features.airflow.settings import AirflowSettings
from tests.stand_in_airflow import StandInAirflow


def settings(airflow: StandInAirflow, **more: Any) -> AirflowSettings:
    sign_in = {} if "user" in more else {"token": SecretStr("secret-token")}
    times = {"timeout": timedelta(seconds=0.5), "poll_interval": timedelta(seconds=0.05)}
    return AirflowSettings(base_url=airflow.url, **{**sign_in, **times, **more})
