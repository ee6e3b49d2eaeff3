"""The Dags of docs/airflow.md are those of examples/airflow, which the tests with a real Airflow run; its YAML is valid."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from config.features.airflow.settings import AirflowSettings

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "airflow.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["report", "export", "per_day"])
def test_the_dags_are_those_of_the_examples(name: str) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    _docstring, _, code = (ROOT / f"examples/airflow/dags/{name}.py").read_text(encoding="utf-8").partition("\n\n")
    assert code in blocks


def test_the_settings_are_valid() -> None:
    whole, keyed = (
        YAML(typ="safe", pure=True).load(block)["settings"]["airflow"]
        for block in re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    )
    airflow = AirflowSettings.model_validate(whole)
    assert (airflow.forward, airflow.listen) == (
        {"landing_orders": "landing_orders"},
        {"customers": "airflow_customers"},
    )
    with_keys = AirflowSettings.model_validate(keyed).forwards["orders_of_days"]
    assert (with_keys.asset, with_keys.partition_key) == ("orders_of_days", True)
