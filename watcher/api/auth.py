"""Who asks, and what they may do: viewers read, operators pause and trigger, admins write the store."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, HTTPException
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from store.processes import tokens
from watcher.api.context import Context

_bearer = HTTPBearer(auto_error=False, description="A token from `watcher token create`.")
Bearer = Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]


@dataclass(frozen=True, kw_only=True)
class Actor:
    """Whoever a request is made by; `role` is one of `store.processes.tokens.ROLES`."""

    name: str
    role: str


def not_authenticated() -> HTTPException:
    """The answer to a request without a bearer token."""
    return HTTPException(401, "Not authenticated", headers={"WWW-Authenticate": "Bearer"})


async def _actor(context: Context, bearer: Bearer) -> Actor:
    if context.auth == "none":
        return Actor(name=context.anonymous, role=tokens.ROLES[-1])
    if bearer is None:
        raise not_authenticated()
    async with context.database.reading() as connection:
        identity = await tokens.identify(connection, bearer.credentials)
    if identity is None:
        raise HTTPException(403, "Invalid token: it is unknown or revoked; `watcher token create` makes one")
    return Actor(name=identity.subject, role=identity.role)


def _at_least(role: str) -> Callable[[Actor], Awaitable[Actor]]:
    async def check(actor: Annotated[Actor, Depends(_actor)]) -> Actor:
        if tokens.ROLES.index(actor.role) < tokens.ROLES.index(role):
            raise HTTPException(403, f"this needs the role {role}, and {actor.name} is {actor.role}")
        return actor

    return check


Viewer = Annotated[Actor, Depends(_at_least("viewer"))]
Operator = Annotated[Actor, Depends(_at_least("operator"))]
Admin = Annotated[Actor, Depends(_at_least("admin"))]
