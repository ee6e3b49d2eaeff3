"""Renders templates as pages: the functions that templates may call, and headers that let pages load only our own files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

from fastapi import Depends, Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from store.processes.tokens import ROLES
from watcher.features.pages import addresses, static_files, words
from watcher.features.pages.refusals import refusal
from watcher.host.machine import program_version
from watcher.host.page_paths import path
from watcher.serving.api.context import ApiContext, Context, of_app
from watcher.serving.api.sign_in.auth import Actor, Viewer, known_actor

_HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "same-origin",  # a stricter policy makes browsers send the `Origin` of forms as null
}


def _shown(value: Any) -> Any:
    """Return a value as a template inserts it. The result of a macro is escaped already."""
    return words.visible(value) if type(value) is str else "" if value is None else value


def _environment() -> Environment:
    templates = Environment(
        loader=FileSystemLoader([Path(__file__).parent / "templates", Path(__file__).parents[1]]),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    templates.filters.update(words.FILTERS)
    templates.globals.update(path=path, of_write=addresses.of_write, LINE=addresses.LINE)
    templates.globals.update(SHORT=words.SHORT, LONG_NAME=words.LONG_NAME, LONG_TEXT=words.LONG_TEXT)
    templates.globals.update({name: static_files.address(file) for name, file in _FILES.items()})
    return templates


_FILES: Final = {"style": "style.css", "script": "live.js", "icon": "icon.svg"}
_TEMPLATES: Final = _environment()


@cache
def _version() -> str:
    return program_version()


@dataclass(frozen=True, kw_only=True)
class View:
    """A request for a page, with its actor."""

    request: Request
    context: ApiContext
    actor: Actor

    def page(self, template: str, *, status: int = 200, **values: Any) -> HTMLResponse:
        """Render the template with these values and those that all templates need."""
        role = ROLES.index(self.actor.role)
        rights = {"may_operate": role >= ROLES.index("operator"), "may_write": role >= ROLES.index("admin")}
        of_program = {"version": _version(), "docs_url": self.context.links.docs_url}
        session = {"actor": self.actor, "is_open": self.context.sign_in.auth == "none", **rights, **of_program}
        return _rendered(self.request, template, status, {**session, **values})


async def _view(request: Request, context: Context, actor: Viewer) -> View:
    return View(request=request, context=context, actor=actor)


Pages = Annotated[View, Depends(_view)]
"""The dependency of pages for people who may read. It refuses others like the API."""


async def error_page(request: Request, status: int, detail: Any) -> HTMLResponse:
    """Return the page of a refusal or a failure, in the API's words, with the navigation of whoever is signed in."""
    left = request.headers.get("referer", "")
    is_ours = urlsplit(left).netloc == request.headers.get("host") and urlsplit(left).path != request.url.path
    values = {"code": status, "refusal": refusal(detail), "back": left if is_ours else None}
    actor = await known_actor(request)
    if actor is None:
        return plain_page(request, "error.html", status=status, **values)
    view = View(request=request, context=await of_app(request), actor=actor)
    return view.page("error.html", status=status, **values)


def plain_page(request: Request, template: str, *, status: int = 200, **values: Any) -> HTMLResponse:
    """Return a page for people who are not signed in."""
    nobody = {"actor": None, "is_open": False, "may_operate": False, "may_write": False}
    return _rendered(request, template, status, {**nobody, **values})


def _rendered(request: Request, template: str, status: int, values: Mapping[str, Any]) -> HTMLResponse:
    of_request = {"root": addresses.root(request), "now": datetime.now(UTC), "here": request.url.path}
    return HTMLResponse(_TEMPLATES.get_template(template).render({**of_request, **values}), status, headers=_HEADERS)
