"""`watcher token`: tokens of people and tools, stored in the configured database, with or without a daemon."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import anyio
import typer

from watcher.cli.commands import DEFAULT_CONFIG, ConfigOption, group, load_settings, local_command
from watcher.cli.failures import CommandFailed, ExitCode
from watcher.cli.output import Show
from watcher.cli.tables import Columns, fields, ids, moments, table

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection

    from config.models.settings import Settings
    from store.processes.tokens import CreatedToken, Token

T = TypeVar("T")
token = group("token", "Tokens of people and tools.")
_LONGEST = 250
_COLUMNS: Columns = {
    **ids(id="id", subject="subject"),
    **fields(role="role", name="name"),
    **moments(created="created_at", expires="expires_at", used="last_used_at"),
}
_Id = Annotated[str | None, typer.Argument(help="The token's id, as `watcher token list` shows it.")]
_Subject = Annotated[str | None, typer.Option("--subject", help="All tokens of this subject instead.")]


def _checked(word: str | None, what: str) -> str | None:
    if word is not None and not (1 <= len(word) <= _LONGEST and word.isprintable()):
        raise CommandFailed(f"a {what} has 1 to {_LONGEST} printable characters; choose another", ExitCode.USAGE)
    return word


def _seconds(duration: str | None) -> int | None:
    if duration is None:
        return None
    from config.models.values import parse_duration  # noqa: PLC0415  see watcher.cli

    try:
        return int(parse_duration(duration).total_seconds())
    except ValueError as error:
        raise CommandFailed(f"a time {error}", ExitCode.USAGE) from None


@local_command(token, "create")
def create(
    show: Show,
    subject: Annotated[str, typer.Option(help="Whom the token speaks for; it stands in the audit.")],
    role: Annotated[Literal["viewer", "operator", "admin"], typer.Option(help="What it may do.")],
    name: Annotated[str | None, typer.Option(help="Tells several tokens of a subject apart.")] = None,
    expires_in: Annotated[str | None, typer.Option(help="How long it lives, such as `30d`; else for ever.")] = None,
    config: ConfigOption = DEFAULT_CONFIG,
) -> None:
    """Create a token and print it. It is never shown again."""
    _checked(subject, "subject")
    made = anyio.run(_create, load_settings(config), subject, role, _checked(name, "name"), _seconds(expires_in))
    show(_shown(made), lambda: made.token)


async def _create(
    settings: Settings, subject: str, role: str, name: str | None, expires_in: int | None
) -> CreatedToken:
    from store.processes import tokens  # noqa: PLC0415  see watcher.cli

    async def create(connection: AsyncConnection) -> CreatedToken:
        made = await tokens.create(connection, subject, role, name=name, expires_in=expires_in)
        await _record(connection, "create", made, role=role)
        return made

    return await _change(settings, create)


@local_command(token, "list")
def list_tokens(
    show: Show,
    subject: Annotated[str | None, typer.Option(help="Only those of this subject.")] = None,
    config: ConfigOption = DEFAULT_CONFIG,
) -> None:
    """List the tokens that are not revoked, the newest first. The tokens themselves are never shown."""
    rows = [_shown(each) for each in anyio.run(_list, load_settings(config), subject)]
    show(rows, lambda: table(rows, _COLUMNS, "there is no token; `watcher token create` makes one"))


async def _list(settings: Settings, subject: str | None) -> Sequence[Token]:
    from store.database.paging import PageRequest  # noqa: PLC0415  see watcher.cli
    from store.processes import tokens  # noqa: PLC0415

    async def read(connection: AsyncConnection) -> Sequence[Token]:
        return (await tokens.listed(connection, PageRequest(limit=10_000), subject=subject)).rows

    return await _change(settings, read)


@local_command(token, "revoke")
def revoke(show: Show, token_id: _Id = None, subject: _Subject = None, config: ConfigOption = DEFAULT_CONFIG) -> None:
    """Revoke a token, or all tokens of a subject, at once."""
    ended = anyio.run(_revoke, load_settings(config), token_id, subject)
    sentence = f"{len(ended)} token{'' if len(ended) == 1 else 's'} revoked"
    show([_shown(each) for each in ended], lambda: sentence)


async def _revoke(settings: Settings, token_id: str | None, subject: str | None) -> Sequence[Token]:
    from store.processes import tokens  # noqa: PLC0415  see watcher.cli

    async def revoke(connection: AsyncConnection) -> Sequence[Token]:
        ended = [await tokens.revoke(connection, each) for each in await _chosen(connection, token_id, subject)]
        for each in ended:
            await _record(connection, "revoke", each)
        return ended

    return await _change(settings, revoke)


@local_command(token, "rotate")
def rotate(
    show: Show,
    token_id: _Id = None,
    subject: _Subject = None,
    overlap: Annotated[str, typer.Option(help="How long the old one goes on, such as `1h`.")] = "0s",
    config: ConfigOption = DEFAULT_CONFIG,
) -> None:
    """Replace a token, or each token of a subject, and print the new ones. Subject, role, name and lifetime stay."""
    made = anyio.run(_rotate, load_settings(config), token_id, subject, _seconds(overlap) or 0)
    show([_shown(each) for each in made], lambda: "\n".join(each.token for each in made))


async def _rotate(
    settings: Settings, token_id: str | None, subject: str | None, overlap: int
) -> Sequence[CreatedToken]:
    from store.processes import tokens  # noqa: PLC0415  see watcher.cli

    async def rotate(connection: AsyncConnection) -> Sequence[CreatedToken]:
        chosen = await _chosen(connection, token_id, subject)
        made = [await tokens.rotate(connection, each, overlap) for each in chosen]
        for old, new in zip(chosen, made, strict=True):
            await _record(connection, "rotate", new, instead_of=old, overlap=overlap)
        return made

    return await _change(settings, rotate)


async def _chosen(connection: AsyncConnection, token_id: str | None, subject: str | None) -> Sequence[str]:
    """Return the ids of the chosen tokens. Raises `CommandFailed`."""
    from store.processes import tokens  # noqa: PLC0415  see watcher.cli

    if (token_id is None) == (subject is None):
        raise CommandFailed("name one token by its id, or a subject by --subject", ExitCode.USAGE)
    if subject is None:
        assert token_id is not None  # noqa: S101  one of the two is given
        return [token_id]
    ids = [each.id for each in await tokens.of_subject(connection, subject)]
    if not ids:
        raise CommandFailed(
            f"{subject} has no token; `watcher token list` shows the ones there are", ExitCode.NOT_FOUND
        )
    return ids


async def _record(connection: AsyncConnection, action: str, changed: Token, **detail: Any) -> None:
    from store.processes import audit  # noqa: PLC0415  see watcher.cli
    from watcher.host.machine import account  # noqa: PLC0415

    detail = {"id": changed.id, **detail}
    await audit.record(connection, account(), f"token.{action}", changed.subject, detail)


async def _change(settings: Settings, operation: Callable[[AsyncConnection], Awaitable[T]]) -> T:
    """Run a change in one transaction on the configured database."""
    from store.errors import Conflict, NotFound  # noqa: PLC0415  see watcher.cli
    from watcher.cli.database import opened_database  # noqa: PLC0415

    async with opened_database(settings) as database:
        try:
            async with database.transaction() as connection:
                return await operation(connection)
        except NotFound as error:
            raise CommandFailed(str(error), ExitCode.NOT_FOUND) from None
        except Conflict as error:
            raise CommandFailed(str(error), ExitCode.CONFLICT) from None


def _shown(one: Token) -> dict[str, Any]:
    """Return a token as JSON data."""
    return {name: value.isoformat() if hasattr(value, "isoformat") else value for name, value in vars(one).items()}
