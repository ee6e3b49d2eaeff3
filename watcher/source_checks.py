"""Reaching every source and judging it, without watching it: what `watcher check --connect` prints."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

import anyio

from config.models import Configuration
from triggers.base import Finding
from triggers.errors import SourceUnavailable
from watcher.app import hosted
from watcher.triggerer.building import Hosted, build
from watcher.triggerer.clients import Clients, open_clients

PATIENCE: Final = 60.0
"""Seconds that one source gets."""


async def source_findings(configuration: Configuration) -> Sequence[dict[str, Any]]:
    """Every watcher's findings, by watcher: `watcher`, `check`, `level`, `message`, `remedy`."""
    found: dict[str, Sequence[Finding]] = {}
    async with open_clients(configuration.connections) as clients:

        async def judge(one: Hosted) -> None:
            found[one.name] = await _findings(one, clients, configuration)

        async with anyio.create_task_group() as checks:
            for one in hosted(configuration, defaultdict(int)):
                checks.start_soon(judge, one)
    return [{"watcher": name, **asdict(finding)} for name in sorted(found) for finding in found[name]]


async def _findings(one: Hosted, clients: Clients, configuration: Configuration) -> Sequence[Finding]:
    """Whatever goes wrong is that watcher's finding: a plug-in may raise anything."""
    try:
        with anyio.fail_after(PATIENCE):
            trigger = await build(one, clients, configuration.settings.triggerer.poll_timeout)
            return await trigger.check()
    except TimeoutError:
        return [_unreached(f"the source did not answer within {PATIENCE:g} s", "check address and network")]
    except SourceUnavailable as error:
        return [_unreached(str(error), "check the connection's address, and that the network leads there")]
    except Exception as error:  # noqa: BLE001
        return [_unreached(str(error) or type(error).__name__, "")]


def _unreached(message: str, remedy: str) -> Finding:
    return Finding.error("connect", message, remedy)
