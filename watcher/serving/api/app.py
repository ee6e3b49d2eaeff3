"""The application: every route has the same guards, and every failure is reported in the same form."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from fastapi import APIRouter, FastAPI
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute

from watcher.errors import FeatureUnusable
from watcher.host.machine import program_version
from watcher.installed import Installed, installed, naming, resolve
from watcher.serving.api import probes
from watcher.serving.api.context import ApiContext
from watcher.serving.api.document.openapi import Documented, reference_page
from watcher.serving.api.errors import add_handlers
from watcher.serving.api.execution import ROUTERS
from watcher.serving.api.guards import Guards
from watcher.serving.api.sign_in.auth import ROLE_CHECKS

MOST_CALLED: Final = (
    "/api/v2/assets/events",
    "/execution/store/asset/by-name/value",
    "/execution/tries/progress",
    "/execution/tries/claim",
    "/execution/tries/finish",
)
"""The paths that programs call most often. A request tries the routes one by one, and these have no parameters to shadow others."""


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
    # `include_router` would nest routers, and each request would search them all.
    routers = (*routers_of(features), *ROUTERS, probes.router, reference_page)
    app.router.routes.extend(sorted((route for router in routers for route in router.routes), key=_calls_before))
    add_handlers(app)
    app.add_middleware(Guards)
    for path in features.paths("pages").values():
        add_pages: Callable[[FastAPI], None] = resolve(path)
        add_pages(app)
    return app


def _calls_before(route: BaseRoute) -> int:
    """Return a route's place in the order in which requests try them. Those that are not named keep theirs, after the named."""
    path = getattr(route, "path", "")
    return MOST_CALLED.index(path) if path in MOST_CALLED else len(MOST_CALLED)


def routers_of(features: Installed) -> Sequence[APIRouter]:
    """Return the routers of the features. Those of another distribution stand below a prefix of their own.

    Raises `FeatureUnusable` for routers of another distribution that cannot be imported, or have a route that needs no role.
    """
    routers: list[APIRouter] = []
    others = features.of_others.paths("routes")
    for name, path in features.paths("routes").items():
        with naming(name):
            of_feature: Sequence[APIRouter] = resolve(path)
            routers += [_apart(name, of_feature)] if name in others else of_feature
    return routers


def _apart(feature: str, routers: Sequence[APIRouter]) -> APIRouter:
    """Return a router with all routes of a feature below its prefix. Raises `FeatureUnusable` for one that anybody may call."""
    apart = APIRouter(prefix=f"/api/v2/x/{feature}", tags=[feature])
    for router in routers:
        for route in router.routes:
            if not isinstance(route, APIRoute) or ROLE_CHECKS.isdisjoint(_calls(route.dependant)):
                place = getattr(route, "path", type(route).__name__)
                raise FeatureUnusable(
                    f"the route {place} of the feature {feature} needs no role; let it take a Viewer, an Operator or an Admin "
                    "of watcher.serving.api.sign_in.auth, and put it directly into its router"
                )
        apart.include_router(router)
    return apart


def _calls(dependant: Dependant) -> Iterator[Any]:
    for dependency in dependant.dependencies:
        yield dependency.call
        yield from _calls(dependency)
