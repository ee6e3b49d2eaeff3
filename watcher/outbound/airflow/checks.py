"""Checks that a neighbouring Airflow is what the configuration says, for `watcher check --connect`."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Final

from config.features.airflow.settings import AirflowSettings
from triggers.base import Finding
from watcher.outbound.airflow.client import AirflowClient, AirflowError, AirflowRefused
from watcher.outbound.airflow.forward import NEEDS_PARTITION_KEYS

KNOWN: Final = ("3.0", "3.1", "3.2", "3.3")
"""The versions of Airflow whose REST API is known to fit."""
_FIRST_WITH_PARTITION_KEYS: Final = (3, 2)


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
    keyed = [name for name, forward in settings.forwards.items() if forward.partition_key]
    if keyed and _is_before(version, _FIRST_WITH_PARTITION_KEYS):
        sentence = f"Airflow {version} would refuse the partition keys that go with events of {', '.join(keyed)}"
        yield Finding.error("partition_key", sentence, NEEDS_PARTITION_KEYS)
    for target in sorted({*(forward.asset for forward in settings.forwards.values()), *settings.listen}):
        yield await _asset(client, target)


def _is_before(version: str, first: tuple[int, int]) -> bool:
    numbers = re.match(r"([0-9]{1,9})[.]([0-9]{1,9})", version)
    return numbers is not None and (int(numbers[1]), int(numbers[2])) < first


async def _asset(client: AirflowClient, target: str) -> Finding:
    try:
        asset_id = await client.asset_id(target)
        await client.newest_event(asset_id)
    except AirflowError as error:
        return Finding.error("asset", str(error), "correct settings.airflow, or give the asset to a Dag")
    return Finding.ok("asset", f"Airflow's asset {target} is number {asset_id}")
