"""Authentication and roles: viewers read, operators pause and trigger, admins write the store."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import Annotated, Final

from fastapi import Depends, HTTPException, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.types import Scope

from store.processes import tokens
from store.processes.tokens import Identity
from watcher.host.loops import keep_going
from watcher.serving import owner_tokens, try_tokens
from watcher.serving.api.context import ApiContext, Context, of_app
from watcher.serving.api.errors import UNAVAILABLE
from watcher.serving.api.sign_in.sign_ins import REFUSED, optional_write, refused_token
from watcher.serving.api.streams.open_streams import MayListen
from watcher.serving.try_tokens import ImpossibleClaims, InvalidTryToken, TryIdentity

_bearer = HTTPBearer(auto_error=False, description="A token from `watcher token create`.")
_ACTOR: Final = "watcher.actor"
"""The key under which a request's scope holds its actor, or the refusal."""
Bearer = Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]


@dataclass(frozen=True, kw_only=True)
class Actor:
    """The person or tool that sends a request. `role` is one of `store.processes.tokens.ROLES`.

    `owns_home`: it is the command line of an account that can read the daemon's home.
    """

    name: str
    role: str
    owns_home: bool = False


def not_authenticated(sentence: str = "Not authenticated") -> HTTPException:
    """Return the answer to a request without valid authentication: 401."""
    return HTTPException(401, sentence, headers={"WWW-Authenticate": "Bearer"})


async def sign_in(scope: Scope) -> None:
    """Refuse a sender who may not call any route there, before a body is read. Raises 401, 403 and 429."""
    request = Request(scope)
    if scope["path"].startswith("/execution/"):
        await try_identity(request, await of_app(request), await _bearer(request))
    elif scope["path"].startswith("/api/"):
        await _actor(request, await _bearer(request))


async def try_identity(request: Request, context: ApiContext, bearer: Bearer) -> TryIdentity:
    """Return the try that a job's token identifies. Raises 401, 403 and 429."""
    if bearer is None:
        raise not_authenticated()
    try:
        return try_tokens.verify(context.sign_in.secrets, bearer.credentials)
    except ImpossibleClaims as error:  # nobody guesses our secrets, so it does not count as a failed sign-in
        raise not_authenticated(f"Invalid token: {error}") from None
    except InvalidTryToken as error:
        raise await refused_token(request, context, f"Invalid token: {error}") from None


async def _actor(request: Request, bearer: HTTPAuthorizationCredentials | None) -> Actor:
    """Return the request's actor, which is looked up once per request. Raise the same refusal each time.

    This is not a FastAPI dependency, because calling one costs more than this look-up.
    """
    known: Actor | HTTPException | None = request.scope.get(_ACTOR)
    if known is None:
        try:
            known = await _identified(request, await of_app(request), bearer)
        except HTTPException as error:
            known = error
        request.scope[_ACTOR] = known
    if isinstance(known, HTTPException):
        raise known
    return known


async def known_actor(request: Request) -> Actor | None:
    """Return the request's actor; None if nobody is signed in, or nobody knows because the database does not answer."""
    try:
        return await _actor(request, await _bearer(request))
    except (HTTPException, *UNAVAILABLE):
        return None


async def _identified(request: Request, context: ApiContext, bearer: Bearer) -> Actor:
    if context.sign_in.auth == "none":
        return Actor(name=context.sign_in.anonymous, role=tokens.ROLES[-1])
    identity = await (_of_session(request, context) if bearer is None else _of_token(request, context, bearer))
    if identity.use_is_news:
        await optional_write(context.database, partial(tokens.remember_use, token_id=identity.token_id))
    return Actor(name=identity.subject, role=identity.role, owns_home=not identity.token_id)


async def _of_token(request: Request, context: ApiContext, bearer: HTTPAuthorizationCredentials) -> Identity:
    known = context.sign_in.known_tokens.get(bearer.credentials, monotonic())
    if known is not None:
        return known
    account = owner_tokens.account_of(context.sign_in.secrets, bearer.credentials)
    if account is not None:
        return Identity(token_id="", subject=account, role=tokens.ROLES[-1])
    asked_at = monotonic()
    async with context.database.reading() as connection:
        identity = await tokens.identify(connection, bearer.credentials)
    if identity is None:
        raise await refused_token(request, context, REFUSED)
    context.sign_in.known_tokens.put(bearer.credentials, identity, asked_at)
    return identity


async def _of_session(request: Request, context: ApiContext) -> Identity:
    """Identify the sender by the session cookie. `Guards` has checked that the request comes from one of our pages."""
    session_id = context.sign_in.site.session_id(request.headers)
    if session_id is None:
        raise not_authenticated()
    async with context.database.reading() as connection:
        identity = await tokens.identify_session(connection, session_id)
    # This does not count as a failed sign-in: nobody guesses 256 bits, so it is a page that was left open.
    if identity is None:
        raise not_authenticated("the session has ended; sign in again")
    return identity


def _at_least(role: str) -> Callable[[Request, Bearer], Awaitable[Actor]]:
    async def check(request: Request, bearer: Bearer) -> Actor:
        actor = await _actor(request, bearer)
        if tokens.ROLES.index(actor.role) < tokens.ROLES.index(role):
            raise HTTPException(
                403,
                f"this needs the role {role}, and {actor.name} has the role {actor.role}; use a token with the role {role}",
            )
        return actor

    return check


async def _owner(request: Request, bearer: Bearer) -> Actor:
    actor = await _actor(request, bearer)
    if not actor.owns_home:
        raise HTTPException(
            403,
            f"only an account that can read the daemon's home may do this, and {actor.name} is known by other means; "
            "use the command line where the daemon runs, without --url",
        )
    return actor


_viewer, _operator, _admin = map(_at_least, tokens.ROLES)
ROLE_CHECKS: Final = frozenset({_owner, _viewer, _operator, _admin})
"""The dependencies that refuse who may not call a route. Each route of people and tools has one of them."""
HomeOwner = Annotated[Actor, Depends(_owner)]
Viewer = Annotated[Actor, Depends(_viewer)]
Operator = Annotated[Actor, Depends(_operator)]
Admin = Annotated[Actor, Depends(_admin)]


async def _may_listen(request: Request, context: Context, bearer: Bearer) -> MayListen:
    return partial(_is_signed_in, request, context, bearer)


async def _is_signed_in(request: Request, context: ApiContext, bearer: HTTPAuthorizationCredentials | None) -> bool:
    """Return whether the token or session is still valid. While the database does not answer, nobody is signed out."""
    if context.sign_in.auth == "none":
        return True
    session_id = context.sign_in.site.session_id(request.headers)
    async with keep_going("api.sign_in_unknown"), context.database.reading() as connection:
        if bearer is not None:
            owner = owner_tokens.account_of(context.sign_in.secrets, bearer.credentials, may_be_over=True)
            return owner is not None or await tokens.identify(connection, bearer.credentials) is not None
        return session_id is not None and await tokens.identify_session(connection, session_id) is not None
    return True


Listener = Annotated[MayListen, Depends(_may_listen)]
"""The check for answers that continue, during which a token may be revoked and a session may end."""
