"""What the commands that talk to the API have in common: whom they talk to, and how they print."""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import anyio
import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from store.errors import no_asset
from store.processes.file_locks import is_held
from watcher.cli.api_client import ApiClient, remote
from watcher.cli.failures import Commands, Exit, Failure
from watcher.home import lock_path
from watcher.machine import url_here

if TYPE_CHECKING:
    from config.models import Configuration
    from watcher.isolation.fork_server import ForkServer

ConfigOption = Annotated[
    Path,
    typer.Option(
        "--config", "-c", envvar="WATCHER_CONFIG", help="The YAML file, or a folder of them.", show_default=True
    ),
]
DEFAULT_CONFIG = Path("watchers.yaml")
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
_Url = Annotated[str | None, typer.Option("--url", envvar="WATCHER_URL", help="The daemon's address.")]
_Token = Annotated[str | None, typer.Option("--token", envvar="WATCHER_TOKEN", help="Your API token.")]


Columns: TypeAlias = Mapping[str, Callable[[Any], Any]]
"""A table's headings, each with what it shows of a row."""
_WIDE = 1000
"""Columns of what goes into a pipe or a file, where folded cells could not be searched."""


@dataclass(frozen=True, kw_only=True)
class Show:
    """Prints an answer: as JSON, or as people read it."""

    as_json: bool

    def __call__(self, data: Any, readable: Callable[[], Any]) -> None:
        """`readable` makes a text or something that Rich can print."""
        if self.as_json:
            typer.echo(json.dumps(data))
            return
        console = Console()
        if not console.is_terminal:
            console.width = _WIDE
        console.print(readable(), markup=False, highlight=False)

    def done(self, sentence: str) -> None:
        """Say what was done; nothing with `--json`."""
        if not self.as_json:
            typer.echo(sentence)


def load_configuration(path: Path, *, with_files: bool = False, fork_server: ForkServer | None = None) -> Configuration:
    """Read and check it, `with_files` also that the jobs' applications are there. Raises `ConfigurationInvalid`.

    `fork_server` is asked for the processes that check the plug-ins' keys; None starts one where there are any.
    """
    from config.loader import load  # noqa: PLC0415  see watcher.cli
    from watcher.isolation.inquiries import Inquirer  # noqa: PLC0415
    from watcher.vocabulary import vocabulary  # noqa: PLC0415

    with Inquirer(fork_server) as inquirer:
        return load(path, vocabulary(inquirer), os.environ, with_files=with_files)


def group(name: str, about: str) -> typer.Typer:
    return typer.Typer(name=name, help=about, cls=Commands, no_args_is_help=True)


def command(group: typer.Typer, name: str) -> Callable[[Callable[..., Awaitable[None]]], None]:
    """Register `async def (api, show, *own parameters)`; it also gets --config, --url, --token and --json."""

    def register(function: Callable[..., Awaitable[None]]) -> None:
        own = list(inspect.signature(function, eval_str=True).parameters.values())[2:]
        common = list(inspect.signature(_common, eval_str=True).parameters.values())

        def run(config: Path, url: str | None, token: str | None, *, as_json: bool, **arguments: Any) -> None:
            async def call() -> None:
                async with _connected(config, url, token) as api:
                    await function(api, Show(as_json=as_json), **arguments)

            anyio.run(call)

        parameters = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in (*own, *common)]
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # what Typer reads
        run.__annotations__ = {p.name: p.annotation for p in parameters}
        run.__doc__ = function.__doc__
        group.command(name)(run)

    return register


@asynccontextmanager
async def _connected(config: Path, url: str | None, token: str | None) -> AsyncIterator[ApiClient]:
    """The API of the daemon that was named, of the one that runs here, or of the configured database when none does."""
    if url is not None:
        async with remote(url, token) as api:
            yield api
        return
    async with _of_configuration(load_configuration(config), token) as api:
        yield api


def _of_configuration(configuration: Configuration, token: str | None) -> AbstractAsyncContextManager[ApiClient]:
    settings = configuration.settings
    if not is_held(lock_path(settings.home)):
        from watcher.cli.connections import in_process  # noqa: PLC0415  see watcher.cli

        return in_process(configuration)
    if settings.api.port == 0:
        raise Failure("the daemon listens on a port of its own choice; give its address with --url")
    return remote(url_here(settings.api.host, settings.api.port), token)


def _common(
    config: ConfigOption = DEFAULT_CONFIG, url: _Url = None, token: _Token = None, as_json: JsonOption = False
) -> None:
    """The options of every command that talks to the API."""


def table(rows: Iterable[Any], columns: Columns) -> Table:
    made = Table(box=SIMPLE_HEAD, pad_edge=False, show_header=any(map(str.strip, columns)))
    for heading in columns:
        made.add_column(heading, overflow="fold")
    for row in rows:
        made.add_row(*(Text(_cell(value(row))) for value in columns.values()))
    return made


def fields(**members: str) -> Columns:
    """Columns that show a member of a row as it is, by heading."""
    return {heading: itemgetter(member) for heading, member in members.items()}


def properties(of: Mapping[str, Any]) -> Table:
    """One thing, a line for each of its properties."""
    return table(of.items(), {"": lambda item: item[0], " ": lambda item: item[1]})


def _cell(value: Any) -> str:
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False)
    return "-" if value is None else str(value)


async def asset_named(api: ApiClient, name: str) -> dict[str, Any]:
    """The asset of this name, also an inactive one. Raises `Failure`."""
    query = {"name_prefix_pattern": name, "only_active": False, "order_by": "name"}
    for asset in await api.all("/api/v2/assets", "assets", **query):
        if asset["name"] == name:
            return asset
    raise Failure(str(no_asset(name)), Exit.NOT_FOUND)
