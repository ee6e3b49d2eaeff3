"""Whose token a job holds, and which assets that lets it reach."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Final

import structlog
from fastapi import Depends, Header, HTTPException, Request, Response
from sqlalchemy.ext.asyncio import AsyncConnection

from store.catalog import assets
from store.catalog.assets import AssetRow
from store.keys import ROLES, Role, TaskInstanceKey, TryKey, TryRef
from store.runs import answers, task_instances, tries
from store.runs.answers import IdempotencyKey
from store.runs.try_lock import AssetSelector
from watcher.serving import try_tokens
from watcher.serving.api.context import ApiContext, of_app
from watcher.serving.api.sign_in.auth import Bearer, try_identity
from watcher.serving.try_tokens import TryIdentity

STORE: Final[frozenset[Role]] = frozenset({"inlet", "outlet"})
"""Roles of the assets whose store a job reads and writes."""
EVENTS: Final = frozenset(ROLES)
"""Roles of the assets that a job may know of, with their events."""


@dataclass(frozen=True, kw_only=True)
class Call:
    """A write as a try asks for it; `request` is what its repetition would be known by."""

    context: ApiContext
    ref: TryRef
    granted: frozenset[int] | None
    """Assets of another scheduler's task; None for a try of ours."""
    trace_id: str | None
    request: IdempotencyKey | None


async def _identity(request: Request, bearer: Bearer, response: Response) -> TryIdentity:
    """A token in the last fifth of its life comes back renewed, in the header that Airflow's client takes over."""
    context = await of_app(request)
    identity = await try_identity(request, context, bearer)
    if identity.is_due_for_renewal(datetime.now(UTC)):
        response.headers["Refreshed-API-Token"] = renewed(context, identity)
    return identity


async def _call(
    request: Request,
    bearer: Bearer,
    response: Response,
    idempotency_key: Annotated[str | None, Header(min_length=1, max_length=255)] = None,
) -> Call:
    """A repetition within a day gets the answer of the first and changes nothing; another request with its key: 422.

    Every dependency of a dependency costs FastAPI time, so what all writes need is this one.
    """
    identity = await _identity(request, bearer, response)
    if identity.trace_id is not None:
        structlog.contextvars.bind_contextvars(trace_id=identity.trace_id)  # of the request's own task
    key = None
    if idempotency_key is not None:
        key = IdempotencyKey(key=idempotency_key, request=_fingerprint(request, await request.body()))
    return Call(
        context=await of_app(request),
        ref=identity,
        granted=identity.assets,
        trace_id=identity.trace_id,
        request=key,
    )


Identity = Annotated[TryIdentity, Depends(_identity)]
Writing = Annotated[Call, Depends(_call)]


def _fingerprint(request: Request, body: bytes) -> str:
    address = request.scope["path"].encode(errors="surrogatepass") + b"?" + request.scope["query_string"]
    return hashlib.sha256(b"\n".join((request.method.encode(), address, body))).hexdigest()


def renewed(context: ApiContext, identity: TryIdentity) -> str:
    """A token for the same try that lives as long as the one before did."""
    return try_tokens.issue(
        context.sign_in.secrets[0], identity, lifetime=identity.lifetime, trace_id=identity.trace_id
    )


async def _by_name(name: str) -> AssetSelector:
    return AssetSelector(by="name", text=name)


async def _by_uri(uri: str) -> AssetSelector:
    return AssetSelector(by="uri", text=uri)


SELECTORS: Final = {"by-name": _by_name, "by-uri": _by_uri}
"""By the last part of a path, the dependency that reads which asset is meant."""


async def fenced(connection: AsyncConnection, call: Call) -> TryKey:
    """Lock the try's task instance; nobody supersedes it before the transaction ends.

    Raises `TryFenced`, `NotFound`, `ReplayedResponse`.
    """
    return await tries.fence(connection, call.ref, request=call.request)


async def answered(connection: AsyncConnection, call: Call, response: Response, body: str) -> Response:
    """The answer with this JSON, kept with the effect; `response` has the headers it gets."""
    await answers.keep(connection, call.ref.task_instance_id, call.request, body)
    return Response(body, media_type="application/json", headers=dict(response.headers))


@asynccontextmanager
async def speaking(
    context: ApiContext, identity: TryIdentity
) -> AsyncIterator[tuple[AsyncConnection, TaskInstanceKey]]:
    """A connection that reads, and the task instance the token speaks for. Raises `NotFound`."""
    async with context.database.reading() as connection:
        yield connection, await task_instances.key_of(connection, identity.task_instance_id)


async def declared_asset(
    connection: AsyncConnection,
    identity: TryIdentity,
    dag_id: str,
    roles: Collection[Role],
    *,
    name: str | None = None,
    uri: str | None = None,
) -> AssetRow:
    """The asset of this name, uri, or both, if the job declares it, or an alias that resolved to it, in one of the roles.

    For another scheduler's task, if its token names it. Raises `NotFound`, or 403 (Airflow leaves this open).
    """
    asset, is_declared = await assets.named_by_job(connection, dag_id, roles, name=name, uri=uri)
    if identity.assets is not None:
        is_declared = asset.active and asset.id in identity.assets
    if not is_declared:
        raise undeclared(dag_id, asset.name)
    return asset


async def _own_try(identity: Identity) -> None:
    if identity.assets is not None:
        raise forbidden("a token of POST /api/v2/execution-tokens has no try here; it reads and writes stores only")


OwnTry: Final = Depends(_own_try)
"""For routes that another scheduler's task has no business with."""


def undeclared(dag_id: str, name: str) -> HTTPException:
    """The job does not declare the asset."""
    return forbidden(
        f"the job {dag_id} declares the asset {name!r} neither as inlet nor as outlet; add it to one of them"
    )


def forbidden(message: str) -> HTTPException:
    """What the job may not do, as its SDK reads it."""
    return HTTPException(403, {"reason": "forbidden", "message": message})
