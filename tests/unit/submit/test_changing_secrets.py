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

pytestmark = pytest.mark.feature("rows")


def configuration(folder: Path, password: Any = None, **spark: Any) -> Configuration:
    (folder / "job.py").touch()
    place = {"file": "password"} if password is None else password
    document = {
        "version": 1,
        "connections": {
            "shop": {"type": "postgres", "host": "db", "user": "me", "password": place},
            "unlisted": {"type": "postgres", "host": "db", "password": "secret"},
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


async def test_a_job_whose_sign_in_was_refused_gets_a_password_that_is_not_kept(tmp_path: Path) -> None:
    kept = {"command": ["cat", str(tmp_path / "password")], "ttl": "1h"}
    all_of_them = submissions(jobs_to_start(configuration(tmp_path, password=kept)))
    context = {"connections": all_of_them.jobs["load_orders"].connections}
    submission = make_submission("1", tmp_path / "job.py", context=context)
    (tmp_path / "password").write_text("first")
    await all_of_them.with_changing_secrets(submission)
    (tmp_path / "password").write_text("second")
    kept_now = (await all_of_them.with_changing_secrets(submission)).context["connections"]["shop"]
    assert kept_now["password"] == "first"

    now = await all_of_them.connection("load_orders", "shop")
    assert now == {**kept_now, "password": "second"}
    assert (await all_of_them.with_changing_secrets(submission)).context["connections"]["shop"] == now
    fixed = await all_of_them.connection("load_orders", "fixed")
    assert fixed == {"type": "postgres", "host": "db", "password": "always", "pool_size": 4}
    assert await all_of_them.connection("load_orders", "unlisted") is None
    assert await all_of_them.connection("another_job", "shop") is None


def test_a_warm_driver_does_not_keep_an_outdated_password(tmp_path: Path) -> None:
    with pytest.raises(StartRefused, match=r"job load_orders: .*connection shop; leave spark.warm out"):
        jobs_to_start(configuration(tmp_path, warm=1))
