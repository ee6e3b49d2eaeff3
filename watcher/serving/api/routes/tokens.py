"""`/api/v2/tokens`: the tokens of people and tools. A token itself is shown only once, in the answer that creates it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Literal

from fastapi import APIRouter, Request
from pydantic import AfterValidator, Field

from store.processes import audit, tokens
from store.processes.tokens import LONGEST_LIFE
from watcher.serving.api.context import Context
from watcher.serving.api.document.refusals import MAY_CONFLICT
from watcher.serving.api.parameters import Body, Text, UnorderedWindow, example
from watcher.serving.api.shapes.base import Shape
from watcher.serving.api.sign_in.auth import Admin, HomeOwner
from watcher.serving.sign_in_links import new_link

router = APIRouter(prefix="/api/v2/tokens", tags=["Tokens"])
links = APIRouter(prefix="/api/v2", tags=["Tokens"])


def _printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError("has characters that cannot be printed; remove them")
    return text


_Word = Annotated[Text, Field(min_length=1, max_length=250), AfterValidator(_printable)]
_Seconds = Annotated[int, Field(ge=1, le=LONGEST_LIFE)]


class NewToken(Body):
    """A new token. `expires_in`: seconds, or null for a token that is valid until it is revoked.

    `name` distinguishes several tokens of one subject.
    """

    model_config = example(subject="ann", role="viewer", name="laptop", expires_in=86_400)

    subject: _Word
    role: Literal["viewer", "operator", "admin"]
    name: _Word | None = None
    expires_in: _Seconds | None = None


class NewLink(Body):
    """A link with which a browser signs in once, in a role, and goes on to the page at the address `next` below the root."""

    model_config = example(role="viewer", next="/watchers/landing_files")

    role: Literal["viewer", "operator", "admin"] = "admin"
    next: Annotated[Text, Field(max_length=2000)] | None = None


class LinkShape(Shape):
    url: str


class Rotation(Body):
    """A rotation. `overlap`: seconds for which the old token stays valid."""

    model_config = example(overlap=3600)

    overlap: Annotated[int, Field(ge=0, le=LONGEST_LIFE)] = 0


class TokenShape(Shape):
    id: str
    subject: str
    role: str
    name: str | None
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None
    """The last use, to the minute."""


class CreatedTokenShape(TokenShape):
    token: str


class TokenCollection(Shape):
    tokens: Sequence[TokenShape]
    total_entries: int


@router.get("")
async def list_tokens(context: Context, _: Admin, window: UnorderedWindow) -> TokenCollection:
    """List the tokens that are not revoked, newest first."""
    async with context.database.reading() as connection:
        page = await tokens.listed(connection, window)
    return TokenCollection(tokens=[TokenShape.of(token) for token in page.rows], total_entries=page.total)


@router.post("", status_code=201)
async def create_token(context: Context, actor: Admin, body: NewToken) -> CreatedTokenShape:
    """Create a token. The answer is the only place where it is shown."""
    async with context.database.transaction() as connection:
        token = await tokens.create(connection, body.subject, body.role, name=body.name, expires_in=body.expires_in)
        detail = {"id": token.id, "role": token.role}
        await audit.record(connection, actor.name, "token.create", token.subject, detail)
    return CreatedTokenShape.of(token)


@router.delete("/{token_id}", status_code=204)
async def revoke_token(context: Context, actor: Admin, token_id: str) -> None:
    """Revoke a token. It is invalid at once in this process, and within two seconds in the other processes."""
    async with context.database.transaction() as connection:
        token = await tokens.revoke(connection, token_id)
        await audit.record(connection, actor.name, "token.revoke", token.subject, {"id": token.id})
    context.sign_in.known_tokens.forget()


@router.post("/{token_id}/rotate", status_code=201, responses=MAY_CONFLICT)
async def rotate_token(
    context: Context,
    actor: Admin,
    token_id: str,
    body: Rotation = Rotation(),  # noqa: B008  nothing changes it
) -> CreatedTokenShape:
    """Create a new token with the same subject, role, name and lifetime, which replaces the old one."""
    async with context.database.transaction() as connection:
        token = await tokens.rotate(connection, token_id, body.overlap)
        detail = {"id": token.id, "instead_of": token_id, "overlap": body.overlap}
        await audit.record(connection, actor.name, "token.rotate", token.subject, detail)
    context.sign_in.known_tokens.forget()
    return CreatedTokenShape.of(token)


@links.post("/sign-in-links", status_code=201)
async def create_link(request: Request, context: Context, actor: HomeOwner, body: NewLink) -> LinkShape:
    """Make a link with which a browser signs in, once and within five minutes. Only for who can read the daemon's home."""
    url = context.sign_in.site.base_url or str(request.base_url)
    return LinkShape(url=await new_link(context.database, url, actor.name, body.role, body.next))
