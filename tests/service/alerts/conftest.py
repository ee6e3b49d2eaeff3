"""Fixtures: a web server and a mail server that receive alerts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.receivers import Hook, Mailbox, mail_server, web_hook


@pytest.fixture
def hook() -> Iterator[Hook]:
    with web_hook() as kept:
        yield kept


@pytest.fixture
def mailbox() -> Iterator[Mailbox]:
    with mail_server() as kept:
        yield kept
