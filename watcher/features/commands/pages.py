"""`watcher open`, the web page of a thing in a browser, and `watcher sign-in-link`."""

from __future__ import annotations

from typing import Annotated, Literal
from urllib.parse import quote

import typer

from watcher.cli.api_client import ApiClient
from watcher.cli.commands import asset_named, command
from watcher.cli.failures import CommandFailed, ExitCode
from watcher.cli.output import Show

top = typer.Typer()


@command(top, "open")
async def _open(
    api: ApiClient,
    show: Show,
    name: Annotated[str | None, typer.Argument(help="A watcher, an asset or a job; default: the overview.")] = None,
) -> None:
    """Open the web page of a watcher, an asset or a job. You are signed in where the daemon runs here. Its address is printed."""
    _refuse_without_daemon(api)
    page = "" if name is None else await _page(api, name)
    url = str(api.client.base_url).rstrip("/") + "/" + page
    is_open = _browse(await api.link("admin", f"/{page}") if api.makes_links else url)
    show({"url": url, "opened": is_open}, lambda: url)


@command(top, "sign-in-link")
async def _sign_in_link(
    api: ApiClient,
    show: Show,
    role: Annotated[Literal["viewer", "operator", "admin"], typer.Option(help="What the browser may do.")] = "admin",
) -> None:
    """Print a link with which a browser signs in. It works once, within five minutes. Only where the daemon's home can be read."""
    _refuse_without_daemon(api)
    if not api.makes_links:
        raise CommandFailed(
            "no link was made: with `auth: none` nobody signs in, and else links are made by the account of the daemon's "
            "home, without --url",
            ExitCode.USAGE,
        )
    link = await api.link(role, None)
    show({"url": link}, lambda: link)


def _refuse_without_daemon(api: ApiClient) -> None:
    if api.logs_here is not None:
        raise CommandFailed("no daemon runs here to show pages; start `watcher run`, or give --url")


def _browse(url: str) -> bool:
    """Open the page in a browser. Return whether this machine has one that took it."""
    import webbrowser  # noqa: PLC0415  see watcher.cli

    try:
        return webbrowser.open(url)
    except webbrowser.Error:
        return False


async def _page(api: ApiClient, name: str) -> str:
    """Return the path of the page. Raises `CommandFailed` when nothing has this name."""
    part = quote(name, safe="")
    if await _exists(api, f"/api/v2/watchers/{part}"):
        return f"watchers/{part}"
    if await _exists(api, f"/api/v2/dags/{part}"):
        return f"jobs/{part}"
    try:
        return f"assets/{(await asset_named(api, name))['id']}"
    except CommandFailed as error:
        if error.code != ExitCode.NOT_FOUND:
            raise
    raise CommandFailed(
        f"no watcher, job or asset is called {name!r}; without a name you see all of them", ExitCode.NOT_FOUND
    )


async def _exists(api: ApiClient, path: str) -> bool:
    return (await api.send("GET", path, accepted=404)).is_success
