"""What commands share: their options, and the connection of those that ask the API."""

from __future__ import annotations

import inspect
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import anyio
import typer

from store.errors import no_asset
from store.processes.file_locks import is_held
from watcher.cli.api_client import ApiClient, remote
from watcher.cli.failures import CommandFailed, Commands, ExitCode
from watcher.cli.output import Form, JsonOption, OutputOption, Show
from watcher.cli.plain_text import harmless_lines
from watcher.host.home import Life, address, known_secret, life, lock_path
from watcher.host.machine import account, url_here

if TYPE_CHECKING:
    from config.models import Configuration
    from config.models.settings import Settings
    from watcher.configuration.foreign_classes import ForeignProcesses

ConfigOption = Annotated[
    Path,
    typer.Option(
        "--config", "-c", envvar="WATCHER_CONFIG", help="The YAML file, or a folder of them.", show_default=True
    ),
]
DEFAULT_CONFIG = Path("watchers.yaml")
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask first, as on a terminal is done.")]
_Url = Annotated[str | None, typer.Option("--url", envvar="WATCHER_URL", help="The daemon's address.")]
_Token = Annotated[str | None, typer.Option("--token", envvar="WATCHER_TOKEN", help="Your API token.")]


def configuration_file(words: Sequence[str]) -> Path:
    """Return the file that the words of a command line name, or else the environment, or the default."""
    for option, value in pairwise([*words, ""]):
        if option in {"-c", "--config"}:
            return Path(value)
        if option.startswith("--config="):
            return Path(option.partition("=")[2])
    return Path(os.environ.get("WATCHER_CONFIG") or DEFAULT_CONFIG)


def load_settings(path: Path) -> Settings:
    """Read and check only the settings. Raises `ConfigurationInvalid`."""
    from config.reading.settings_loader import load_settings  # noqa: PLC0415  see watcher.cli
    from watcher.installed import known_settings  # noqa: PLC0415

    return load_settings(path, os.environ, known_settings)


def load_configuration(
    path: Path, *, with_files: bool = False, processes: ForeignProcesses | None = None
) -> Configuration:
    """Read and check the configuration, and with `with_files` that the jobs' applications exist.

    `processes` makes those that check the keys of plug-ins; None opens some when there are any. Raises `ConfigurationInvalid`.
    """
    from watcher.configuration.foreign_classes import load_with_plugins  # noqa: PLC0415  see watcher.cli

    return load_with_plugins(path, with_files=with_files, processes=processes)


def group(name: str, about: str) -> typer.Typer:
    return typer.Typer(name=name, help=about, cls=Commands, no_args_is_help=True)


def command(
    group: typer.Typer, name: str, *, while_starting: Callable[[Show, Life], None] | None = None
) -> Callable[[Callable[..., Awaitable[None]]], None]:
    """Register `async def (api, show, *own parameters)`; it also gets --config, --url, --token, --output and --json.

    `while_starting` is called instead of the function while the daemon starts that would be asked.
    """

    def register(function: Callable[..., Awaitable[None]]) -> None:
        def run(config: Path, url: str | None, token: str | None, *, show: Show, **arguments: Any) -> None:
            if while_starting is not None and url is None and (starting := _starting(config)) is not None:
                while_starting(show, starting)
                return

            async def call() -> None:
                async with _connected(config, url, token) as api:
                    await function(api, show, **arguments)

            anyio.run(call)

        _add(group, name, run, [*_parameters(function)[2:], *_parameters(_connection)], function.__doc__)

    return register


def local_command(group: typer.Typer, name: str) -> Callable[[Callable[..., None]], None]:
    """Register `def (show, *own parameters)`, which asks no daemon; it also gets --output and --json."""

    def register(function: Callable[..., None]) -> None:
        _add(group, name, function, _parameters(function)[1:], function.__doc__)

    return register


def _add(
    group: typer.Typer, name: str, function: Callable[..., None], own: list[inspect.Parameter], about: str | None
) -> None:
    def run(output: Form | None, *, as_json: bool, **arguments: Any) -> None:
        function(show=Show.of(output, as_json), **arguments)

    parameters = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in (*own, *_parameters(_printing))]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # what Typer reads
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    run.__doc__ = about
    group.command(name)(run)


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    return list(inspect.signature(function, eval_str=True).parameters.values())


def _connection(config: ConfigOption = DEFAULT_CONFIG, url: _Url = None, token: _Token = None) -> None:
    """The options of every command that talks to the API."""


def _printing(output: OutputOption = None, as_json: JsonOption = False) -> None:
    """The options of every command that answers."""


@asynccontextmanager
async def _connected(config: Path, url: str | None, token: str | None) -> AsyncIterator[ApiClient]:
    """Open the API of the named daemon, of the one that runs here, or else of the configured database."""
    given = None if token is None else lambda: token
    async with remote(url, given) if url is not None else _of_configuration(config, given) as api:
        yield api


def _of_configuration(path: Path, token: Callable[[], str] | None) -> AbstractAsyncContextManager[ApiClient]:
    """Open the API of the daemon that runs here, else an API in this process.

    A running daemon needs nothing but the settings of the present file. Whoever may read its home needs no token.
    """
    settings = load_settings(path)
    if not is_held(lock_path(settings.home)):
        from watcher.cli.connections import in_process  # noqa: PLC0415  see watcher.cli

        return in_process(load_configuration(path))
    url = url_here(settings.api.host, settings.api.port) if settings.api.port else address(settings.home)
    if url is None:
        raise CommandFailed("the daemon does not listen yet; ask again in a moment")
    owner = _token_of_owner(settings)
    return remote(url, token or owner, owner)


def _starting(path: Path) -> Life | None:
    """Return since when the daemon that runs here starts; None if it does not, or none runs here."""
    home = load_settings(path).home
    latest = life(home) if is_held(lock_path(home)) else None
    return latest if latest is not None and latest.stage == "starting" else None


def _token_of_owner(settings: Settings) -> Callable[[], str] | None:
    """Return what makes tokens from the secret of the daemon that runs here; None if it needs none, or if this account may not."""
    if settings.api.auth == "none":
        return None
    secret = known_secret(settings.home) if settings.api.secret is None else None
    if settings.api.secret is not None:
        secret = settings.api.secret[0].get_secret_value().encode()
    if secret is None:
        return None
    from watcher.serving import owner_tokens  # noqa: PLC0415  see watcher.cli

    return partial(owner_tokens.issue, secret, account())


async def asset_named(api: ApiClient, name: str) -> dict[str, Any]:
    """Return the asset with this name, also an inactive one. Raises `CommandFailed`."""
    query = {"name_prefix_pattern": name, "only_active": False, "order_by": "name"}
    for asset in await api.all("/api/v2/assets", "assets", **query):
        if asset["name"] == name:
            return asset
    raise CommandFailed(str(no_asset(name)), ExitCode.NOT_FOUND)


def asks(yes: bool) -> bool:
    """Whether somebody is to be asked first: on a terminal, unless `--yes` was given. Scripts are not asked."""
    return not yes and sys.stdin.isatty()


def confirm(means: str, question: str) -> None:
    """Say on stderr what would follow, and wait for a yes. Ctrl-C, which the event loop would swallow, means no. Raises `typer.Abort`."""
    typer.echo(harmless_lines(means), err=True)
    of_loop = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        typer.confirm(question, abort=True, err=True)
    finally:
        signal.signal(signal.SIGINT, of_loop)
