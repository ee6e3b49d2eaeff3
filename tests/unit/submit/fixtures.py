"""Fixtures that tests of submitters share; the conftest files of both folders import them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from signal import SIGKILL
from typing import Any
from uuid import uuid4

import pytest

from tests.unit.submit.plain import make_submission
from tests.unit.submit.switchboard import Switchboard, open_switchboard, program
from watcher.submit.base import Submission
from watcher.submit.local.processes import signal_tagged


@pytest.fixture
def switchboard() -> Iterator[Switchboard]:
    with open_switchboard() as opened:
        yield opened


@pytest.fixture
def new_try(tmp_path: Path, switchboard: Switchboard) -> Iterator[Callable[..., Submission]]:
    """Make the try of an application given as text (see `switchboard.CALL`). Its processes end with the test."""
    made: list[Submission] = []

    def make(text: str, **more: Any) -> Submission:
        application = tmp_path / f"application_{len(made)}.py"
        application.write_text(program(text))
        made.append(make_submission(str(uuid4()), application, switchboard.port, **more))
        return made[-1]

    yield make
    for submission in made:
        signal_tagged(submission.tag, SIGKILL, wait=True)
