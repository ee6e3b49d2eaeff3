"""Replication slots that removed watchers left behind: their servers keep WAL for them until they are dropped."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence

from sqlalchemy.ext.asyncio import AsyncConnection

from config.models import Configuration
from store.database import Database
from store.detection import positions
from triggers.base import Finding
from triggers.errors import TriggerError
from watcher.configuration.findings import Findings


async def check(configuration: Configuration, database: Database | None) -> Findings:
    """Name the slots that watchers which are not configured any more have left."""
    if database is None:
        return Findings()
    async with database.reading() as connection:
        stored = await positions.identities(connection)
        slots = await slots_of(connection, [name for name in stored if name not in configuration.watchers])
    return Findings(watchers=await slot_findings(configuration, slots))


async def slots_of(connection: AsyncConnection, watchers: Collection[str]) -> Mapping[str, str]:
    """Return the slots in the positions of these watchers; a watcher in another mode has none."""
    slots = {}
    for name in watchers:
        loaded = await positions.read(connection, name)
        state = json.loads((loaded and loaded.state) or "{}")
        if (slot := state.get("slot")) is not None:
            slots[name] = slot
    return slots


async def servers_with(configuration: Configuration, slots: Collection[str]) -> Mapping[str, frozenset[str]]:
    """Return the names of the connections whose server has some of these slots, with these. Raises `TriggerError`."""
    from triggers.changes.publication import slots_at  # noqa: PLC0415
    from triggers.postgres.connection import PostgresConnection  # noqa: PLC0415  few have such slots

    there = {}
    for name, connection in configuration.connections.items():
        if isinstance(connection, PostgresConnection) and (slots_there := await slots_at(connection, slots)):
            there[name] = slots_there
    return there


async def slot_findings(configuration: Configuration, slots: Mapping[str, str]) -> Mapping[str, Sequence[Finding]]:
    """Return a warning for each watcher that is not configured and whose slot is still on a server."""
    if not slots:
        return {}
    try:
        servers = await servers_with(configuration, [*slots.values()])
    except TriggerError as error:
        message = f"whether its replication slot {{}} is still there is unknown: {error}"
        return {
            name: [Finding.warning("slot", message.format(slot), "check the connections")]
            for name, slot in slots.items()
        }
    return {
        name: [_finding(name, slot, server)]
        for name, slot in slots.items()
        for server, there in servers.items()
        if slot in there
    }


def _finding(watcher: str, slot: str, connection: str) -> Finding:
    message = f"its replication slot {slot} is still on the server of {connection}, which keeps all WAL for it"
    return Finding.warning("slot", message, f"`watcher pg drop-slot {watcher}`, unless it is configured again")
