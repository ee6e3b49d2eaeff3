"""`watcher store`: the entries of an asset's store."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any
from urllib.parse import quote

import typer

from watcher.cli.api_client import ApiClient
from watcher.cli.commands import asset_named, command, group
from watcher.cli.failures import CommandFailed, ExitCode
from watcher.cli.output import Show
from watcher.cli.tables import Column, Columns, fields, ids, moments, table

store = group("store", "What watchers, jobs and people keep about an asset.")
Asset = Annotated[str, typer.Argument(help="The asset's name.")]
Key = Annotated[str, typer.Argument(help="The entry's key.")]
IfVersion = Annotated[int | None, typer.Option(min=0, help="Only if the entry has this version; 0: only if it is new.")]


def writer(entry: dict[str, Any]) -> str:
    by = entry["last_updated_by"] or {}
    match by.get("kind"):
        case "task":
            return f"task {by['dag_id']} / {by['run_id']}"
        case "watcher":
            return f"watcher {by['watcher']}"
        case "api":
            return f"api {by['actor']}"
    return "-"


COLUMNS: Columns = {
    **ids(key="key"),
    "value": Column(lambda entry: json.dumps(entry["value"], ensure_ascii=False), "text"),
    **fields(version="version"),
    **moments(updated="updated_at"),
    "by": Column(writer),
    "log": Column(lambda entry: (entry["last_updated_by"] or {}).get("log_url")),
}
HISTORY: Columns = {
    **COLUMNS,
    "value": Column(lambda entry: "(deleted)" if entry["deleted"] else COLUMNS["value"].value(entry), "text"),
    **moments(updated="written_at"),
}


@command(store, "list")
async def list_entries(api: ApiClient, show: Show, asset: Asset) -> None:
    """List an asset's entries."""
    entries = await api.all(await _path(api, asset), "asset_store")
    show(
        entries,
        lambda: table(
            entries, COLUMNS, f"{asset} has no entries; its watchers, jobs and `watcher store set` write them"
        ),
    )


@command(store, "get")
async def get_entry(api: ApiClient, show: Show, asset: Asset, key: Key) -> None:
    """Print one value as JSON. With --json, print the whole entry."""
    entry = await api.get(await _path(api, asset, key))
    show(entry, lambda: json.dumps(entry["value"], ensure_ascii=False))


@command(store, "set")
async def set_entry(
    api: ApiClient,
    show: Show,
    asset: Asset,
    key: Key,
    value: Annotated[str, typer.Argument(help="JSON; `-` reads it from standard input.")],
    if_version: IfVersion = None,
    text: Annotated[bool, typer.Option("--text", help="VALUE is a text as it stands, not JSON.")] = False,
) -> None:
    """Write one value in your own name."""
    given = sys.stdin.read() if value == "-" else value
    body = {"value": given if text else _parsed(given), **({} if if_version is None else {"if_version": if_version})}
    await api.send("PUT", await _path(api, asset, key), body=body)
    show.done(f"{asset}: {key} is set")


@command(store, "delete")
async def delete_entry(api: ApiClient, show: Show, asset: Asset, key: Key, if_version: IfVersion = None) -> None:
    """Remove one entry, if it is there."""
    await api.send("DELETE", await _path(api, asset, key), query={"if_version": if_version})
    show.done(f"{asset}: {key} is gone")


@command(store, "undo")
async def undo_entry(
    api: ApiClient,
    show: Show,
    asset: Asset,
    key: Key,
    to_version: Annotated[
        int | None, typer.Option(min=0, help="Whose value comes back; default: the one before.")
    ] = None,
    if_version: IfVersion = None,
) -> None:
    """Restore an older value as a new version in your own name. Restoring a delete removes the entry."""
    path = await _path(api, asset)
    newest, *older = (await api.get(f"{path}-history", limit=2, key=key))["history"] or [None]
    if newest is None:
        raise CommandFailed(
            f"{asset} has no history of {key!r}; `watcher store history {asset}` lists it", ExitCode.NOT_FOUND
        )
    if to_version is None and not older:
        raise CommandFailed(
            f"no version of {key!r} is before this one; `watcher store delete` removes it", ExitCode.CONFLICT
        )
    to = older[0]["version"] if to_version is None else to_version
    seen = (0 if newest["deleted"] else newest["version"]) if if_version is None else if_version
    answer = await api.send("POST", f"{path}/{_quoted(key)}/undo", body={"to_version": to, "if_version": seen})
    show.done(f"{asset}: {key} is as in version {to}" if answer.content else f"{asset}: {key} is gone")


@command(store, "history")
async def list_history(
    api: ApiClient,
    show: Show,
    asset: Asset,
    key: Annotated[str | None, typer.Argument(help="Of this entry only.")] = None,
) -> None:
    """List the newest hundred writes and deletes, the newest first."""
    path = (await _path(api, asset)) + "-history"
    changes = (await api.get(path, limit=100, **({} if key is None else {"key": key})))["history"]
    show(changes, lambda: table(changes, HISTORY, f"nothing was written to the store of {asset} yet"))


async def _path(api: ApiClient, asset: str, key: str | None = None) -> str:
    path = f"/api/v2/assets/{(await asset_named(api, asset))['id']}/store"
    return path if key is None else f"{path}/{_quoted(key)}"


def _quoted(key: str) -> str:
    return quote(key, safe="").replace(".", "%2E")


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        raise CommandFailed("VALUE is not JSON; quote a text as '\"text\"', or give --text", ExitCode.USAGE) from None
