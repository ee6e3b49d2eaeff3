"""Checks that a neighbouring Airflow is what the configuration says, for `watcher check --connect`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Final

from config.models.settings import AirflowSettings
from triggers.base import Finding
from watcher.outbound.airflow.client import AirflowClient, AirflowError, AirflowRefused

KNOWN: Final = ("3.0", "3.1", "3.2", "3.3")
"""The versions of Airflow whose REST API is known to fit."""


async def check(settings: AirflowSettings) -> Sequence[Finding]:
    """Check that Airflow is reached, lets us sign in, has a known version, and has the named assets."""
    client = AirflowClient(settings)
    try:
        async with aclosing(_findings(client, settings)) as findings:
            return [finding async for finding in findings]
    finally:
        await client.close()


async def _findings(client: AirflowClient, settings: AirflowSettings) -> AsyncGenerator[Finding, None]:
    try:
        version = await client.version()
    except AirflowRefused as error:
        yield Finding.error(
            "sign-in", str(error), "give settings.airflow a token, or a user and a password, of Airflow's"
        )
        return
    except AirflowError as error:
        yield Finding.error("connect", str(error), "check settings.airflow.base_url, and that the network leads there")
        return
    if ".".join(version.split(".")[:2]) in KNOWN:
        yield Finding.ok("version", f"Airflow {version}")
    else:
        known = f"{KNOWN[0]} to {KNOWN[-1]}"
        yield Finding.warning("version", f"Airflow {version} is none of {known}", "try it before you rely on it")
    for target in sorted({*settings.forward.values(), *settings.listen}):
        yield await _asset(client, target)


async def _asset(client: AirflowClient, target: str) -> Finding:
    try:
        asset_id = await client.asset_id(target)
        await client.newest_event(asset_id)
    except AirflowError as error:
        return Finding.error("asset", str(error), "correct settings.airflow, or give the asset to a Dag")
    return Finding.ok("asset", f"Airflow's asset {target} is number {asset_id}")
