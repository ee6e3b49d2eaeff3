"""The application with its pages, for browsers and programs."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.service.api.application import Api, adapted
from tests.service.api.conftest import api as api  # noqa: PLC0414  a fixture
from tests.service.web.browsing import Browser, browsing


@pytest.fixture
async def browser(api: Api) -> AsyncIterator[Browser]:
    """A browser without sign-in, which may do everything."""
    async with browsing(api.context) as client:
        yield Browser(client, api)


@pytest.fixture
async def stranger(api: Api) -> AsyncIterator[Browser]:
    """A browser that has to sign in first."""
    async with browsing(adapted(api.context, auth="tokens")) as client:
        yield Browser(client, api)
