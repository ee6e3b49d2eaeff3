"""`spark.warm` is refused, in one sentence, where no driver can be started ahead."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from config.errors import ConfigurationInvalid
from config.reading.loader import load
from watcher.configuration.vocabulary import vocabulary

pytestmark = pytest.mark.feature("warm")


@pytest.fixture
def problems(tmp_path: Path) -> Callable[..., list[str]]:
    def of(memory: str = "null", **spark: Any) -> list[str]:
        (tmp_path / "load.py").touch()
        words = "".join(f"      {key}: {value}\n" for key, value in {"application": "load.py", **spark}.items())
        scheduler = f"settings: {{scheduler: {{warm_memory_mb: {memory}}}}}"
        file = tmp_path / "watchers.yaml"
        file.write_text(f"version: 1\n{scheduler}\njobs:\n  load:\n    spark:\n{words}")
        try:
            load(file, vocabulary(), {})
        except ConfigurationInvalid as error:
            return [f"{problem.path}: {problem.message}" for problem in error.problems]
        return []

    return of


@pytest.mark.parametrize("master", ["local[*]", "local-cluster[1,1,1024]", "spark://host:7077"])
def test_drivers_are_started_ahead_on_this_machine_and_for_a_standalone_cluster(
    problems: Callable[..., list[str]], master: str
) -> None:
    assert problems(warm=2, master=f'"{master}"') == []


@pytest.mark.parametrize("master", ["yarn", "k8s://https://host"])
def test_other_masters_have_no_warm_drivers(problems: Callable[..., list[str]], master: str) -> None:
    sentence = "jobs.load.spark.warm: drivers are started ahead for masters `local…` and `spark://…` only; remove it"
    assert problems(warm=1, master=f'"{master}"') == [sentence]
    assert problems(warm=0, master=f'"{master}"') == []


def test_an_application_on_another_machine_has_no_warm_drivers(problems: Callable[..., list[str]]) -> None:
    [sentence] = problems(warm=1, application="hdfs://host/load.py")
    assert sentence.endswith("for applications on this machine only; remove it")


def test_without_memory_there_are_no_warm_drivers(problems: Callable[..., list[str]]) -> None:
    sentence = "jobs.load.spark.warm: needs memory: raise settings.scheduler.warm_memory_mb, which is 0"
    assert problems(memory="0", warm=1) == [sentence]
    assert problems(memory="0") == []


def test_a_negative_number_is_refused(problems: Callable[..., list[str]]) -> None:
    assert problems(warm=-1)
