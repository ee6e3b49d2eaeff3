"""Signing in with a token, and out."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, HTTPException, Query, Request, Response
from fastapi.responses import RedirectResponse

from watcher.serving.api.context import Context
from watcher.serving.api.sign_in import sessions
from watcher.serving.web.addresses import root
from watcher.serving.web.forms import Form, go_to
from watcher.serving.web.rendering import plain_page

router = APIRouter(include_in_schema=False)
_LONGEST_ADDRESS = 2000


@router.get("/sign-in")
async def sign_in_page(request: Request, next_page: Annotated[str, Query(alias="next")] = "") -> Response:
    return plain_page(request, "sign_in.html", following=next_page[:_LONGEST_ADDRESS], sentence=None)


@router.post("/sign-in")
async def sign_in(request: Request, context: Context, form: Form) -> Response:
    """To the page that was asked for; a token that is refused is asked for again."""
    following = form.text("next", "")[:_LONGEST_ADDRESS]
    try:
        cookie = await sessions.begin(request, context, form.text("token").strip())
    except HTTPException as error:
        values = {"following": following, "sentence": error.detail}
        return plain_page(request, "sign_in.html", status=error.status_code, **values)
    answer = RedirectResponse(_ours(request, following), 303)
    answer.headers["Set-Cookie"] = cookie
    return answer


@router.post("/sign-out")
async def sign_out(request: Request, context: Context) -> Response:
    answer = go_to(request, "sign-in")
    answer.headers["Set-Cookie"] = await sessions.end(request, context)
    return answer


def _ours(request: Request, following: str) -> str:
    """The address below our root; one that leads to another machine (`//other`) becomes the first page's."""
    is_ours = following.startswith("/") and following[1:2] not in {"/", "\\"} and following.isprintable()
    return root(request) + following[1:] if is_ours else root(request)
