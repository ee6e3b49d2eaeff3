"""The application: every route has the same guards, and every failure is reported in the same form."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from fastapi import APIRouter, FastAPI

from watcher.host.machine import program_version
from watcher.installed import Installed, installed, resolve
from watcher.serving.api import probes
from watcher.serving.api.context import ApiContext
from watcher.serving.api.document.openapi import Documented, reference_page
from watcher.serving.api.errors import add_handlers
from watcher.serving.api.execution import ROUTERS
from watcher.serving.api.guards import Guards


def create_probes(context: ApiContext, features: Installed | None = None) -> FastAPI:  # noqa: ARG001  as of `create_app`
    """Return the application of a process without the role `api`: /healthz, /readyz and /metrics, and nothing else."""
    app = FastAPI(openapi_url=None, redirect_slashes=False)
    app.state.context = context
    app.include_router(probes.router)
    add_handlers(app)
    app.add_middleware(Guards)
    return app


def create_app(context: ApiContext, features: Installed | None = None) -> FastAPI:
    """Return the application with the REST API, the Execution API, the probes, and what `features` add to them.

    None: those that come with the daemon.
    """
    features = installed() if features is None else features
    # FastAPI's own documentation pages would load scripts from other hosts.
    app = Documented(
        title="Asset Watcher", version=program_version(), redirect_slashes=False, docs_url=None, redoc_url=None
    )
    app.state.context = context
    for router in (*ROUTERS[:1], *_of_features(features), *ROUTERS[1:], probes.router, reference_page):
        # `include_router` would nest routers, and each request would search them all.
        app.router.routes.extend(router.routes)
    add_handlers(app)
    app.add_middleware(Guards)
    for path in features.paths("pages").values():
        add_pages: Callable[[FastAPI], None] = resolve(path)
        add_pages(app)
    return app


def _of_features(features: Installed) -> Iterator[APIRouter]:
    """Yield the routers of the features. Those of another distribution stand below a prefix of their own."""
    for feature in features.features:
        if feature.routes is None:
            continue
        routers: Sequence[APIRouter] = resolve(feature.routes)
        if features.is_built_in(feature):
            yield from routers
            continue
        apart = APIRouter(prefix=f"/api/v2/x/{feature.name}", tags=[feature.name])
        for router in routers:
            apart.include_router(router)
        yield apart
