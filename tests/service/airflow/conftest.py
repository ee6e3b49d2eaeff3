"""A stand-in for Airflow's API server, one for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.stand_in_airflow import StandInAirflow, stand_in_airflow


@pytest.fixture
def airflow() -> Iterator[StandInAirflow]:
    with stand_in_airflow() as server:
        yield server
