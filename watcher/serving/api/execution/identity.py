"""The identity behind a job's token, and the assets that it may access."""

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
from store.runs.tries import answers, task_instances, tries
from store.runs.tries.answers import IdempotencyKey
from store.runs.tries.try_lock import AssetSelector
from watcher.serving import try_tokens
from watcher.serving.api.context import ApiContext, of_app
from watcher.serving.api.sign_in.auth import Bearer, try_identity
from watcher.serving.try_tokens import TryIdentity

STORE: Final[frozenset[Role]] = frozenset({"inlet", "outlet"})
"""The roles of the assets whose stores a job may read and write."""
EVENTS: Final = frozenset(ROLES)
"""The roles of the assets that a job may read, with their events."""


@dataclass(frozen=True, kw_only=True)
class Call:
    """A write request of a try. `request` is the key by which a repetition of it is recognized."""

    context: ApiContext
    ref: TryRef
    granted: frozenset[int] | None
    """The asset ids granted to another scheduler's task. None for a try of this scheduler."""
    trace_id: str | None
    request: IdempotencyKey | None


async def _identity(request: Request, bearer: Bearer, response: Response) -> TryIdentity:
    """Identify the try. A token in the last fifth of its life is renewed in the header that Airflow's client reads."""
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
    """Return the write request of a try. All writes need only this dependency, because each nested one costs FastAPI time.

    A repetition with the same idempotency key within a day gets the first answer and changes nothing. Another request with
    that key is refused with 422.
    """
    identity = await _identity(request, bearer, response)
    if identity.trace_id is not None:
        structlog.contextvars.bind_contextvars(trace_id=identity.trace_id)  # bound in the task of this request only
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
    """Return a new token for the same try with the same lifetime."""
    secret = context.sign_in.secrets[0]
    lifetime, trace_id, first = identity.lifetime, identity.trace_id, identity.first
    return try_tokens.issue(secret, identity, lifetime=lifetime, trace_id=trace_id, first=first)


async def _by_name(name: str) -> AssetSelector:
    return AssetSelector(by="name", text=name)


async def _by_uri(uri: str) -> AssetSelector:
    return AssetSelector(by="uri", text=uri)


SELECTORS: Final = {"by-name": _by_name, "by-uri": _by_uri}
"""The dependencies that read which asset is meant, by the last part of the path."""


async def fenced(connection: AsyncConnection, call: Call) -> TryKey:
    """Lock the try's task instance, so that the try cannot be superseded before the transaction ends.

    Raises `TryFenced`, `NotFound`, `ReplayedResponse`.
    """
    return await tries.fence(connection, call.ref, request=call.request)


async def stored_answer(connection: AsyncConnection, call: Call, response: Response, body: str) -> Response:
    """Return an answer with this JSON and the headers of `response`. It is stored in the transaction that has the effect."""
    await answers.keep(connection, call.ref.task_instance_id, call.request, body)
    return Response(body, media_type="application/json", headers=dict(response.headers))


@asynccontextmanager
async def reading_as(
    context: ApiContext, identity: TryIdentity
) -> AsyncIterator[tuple[AsyncConnection, TaskInstanceKey]]:
    """Yield a reading connection and the task instance that the token identifies. Raises `NotFound`."""
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
    """Return the asset of this name, uri, or both, if the job declares it in one of the roles.

    An alias in one of the roles that resolved to the asset also counts. The token of another scheduler's task must list the
    asset instead. Raises `NotFound`, or 403 for other assets, which Airflow does not check.
    """
    asset, is_declared = await assets.named_by_job(connection, dag_id, roles, name=name, uri=uri)
    if identity.assets is not None:
        is_declared = asset.active and asset.id in identity.assets
    if not is_declared:
        raise undeclared(dag_id, asset.name)
    return asset


async def selected_asset(
    connection: AsyncConnection, identity: TryIdentity, dag_id: str, roles: Collection[Role], selector: AssetSelector
) -> AssetRow:
    """Return the asset that the selector names, as `declared_asset` does."""
    name = selector.text if selector.by == "name" else None
    uri = selector.text if selector.by == "uri" else None
    return await declared_asset(connection, identity, dag_id, roles, name=name, uri=uri)


async def _own_try(identity: Identity) -> None:
    if identity.assets is not None:
        raise forbidden(
            "a token of POST /api/v2/execution-tokens has no try here; use it only to read and write stores"
        )


OwnTry: Final = Depends(_own_try)
"""The dependency of routes that refuse tasks of other schedulers."""


def undeclared(dag_id: str, name: str) -> HTTPException:
    """Return the refusal of an asset that the job does not declare: 403."""
    return forbidden(
        f"the job {dag_id} declares the asset {name!r} neither as an inlet nor as an outlet; add it to one of them"
    )


def forbidden(message: str) -> HTTPException:
    """Return a refusal, 403, in the form that the job's SDK reads."""
    return HTTPException(403, {"reason": "forbidden", "message": message})
