"""Passwords that change by themselves, in the private context of a job's tries."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from config.models import Configuration
from config.reading.loader import load
from tests.unit.submit.plain import make_submission, submissions
from triggers.errors import SourceUnavailable
from watcher.configuration.declarations import jobs_to_start
from watcher.configuration.vocabulary import vocabulary
from watcher.errors import StartRefused


def configuration(folder: Path, **spark: Any) -> Configuration:
    (folder / "job.py").touch()
    document = {
        "version": 1,
        "connections": {
            "shop": {"type": "postgres", "host": "db", "user": "me", "password": {"file": "password"}},
            "till": {"type": "postgres", "dsn": "postgresql://me@till/till", "password": {"file": "password"}},
            "fixed": {"type": "postgres", "host": "db", "password": "always"},
        },
        "jobs": {
            "load_orders": {"spark": {"application": "job.py", "connections": ["shop", "till", "fixed"], **spark}}
        },
    }
    (folder / "watchers.yaml").write_text(json.dumps(document))
    return load(folder / "watchers.yaml", vocabulary(), {})


async def test_a_try_gets_the_password_of_the_moment_of_its_submission(tmp_path: Path) -> None:
    all_of_them = submissions(jobs_to_start(configuration(tmp_path)))
    connections = all_of_them.jobs["load_orders"].connections
    submission = make_submission("1", tmp_path / "job.py", context={"token": "t", "connections": connections})
    for password in ("first", "se/cond"):
        (tmp_path / "password").write_text(password)
        context = (await all_of_them.with_changing_secrets(submission)).context
        assert context == {
            "token": "t",
            "connections": {
                "shop": {"type": "postgres", "host": "db", "user": "me", "password": password, "pool_size": 4},
                "till": {
                    "type": "postgres",
                    "dsn": f"postgresql://me:{password.replace('/', '%2F')}@till/till",
                    "pool_size": 4,
                },
                "fixed": {"type": "postgres", "host": "db", "password": "always", "pool_size": 4},
            },
        }


async def test_without_a_password_the_try_has_to_wait(tmp_path: Path) -> None:
    all_of_them = submissions(jobs_to_start(configuration(tmp_path)))
    context = {"connections": all_of_them.jobs["load_orders"].connections}
    with pytest.raises(SourceUnavailable, match="No such file"):
        await all_of_them.with_changing_secrets(make_submission("1", tmp_path / "job.py", context=context))


def test_a_warm_driver_does_not_keep_an_outdated_password(tmp_path: Path) -> None:
    with pytest.raises(StartRefused, match=r"job load_orders: .*connection shop; leave spark.warm out"):
        jobs_to_start(configuration(tmp_path, warm=1))
