"""The page to sign in with a token or a link, and signing out."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, HTTPException, Query, Request, Response
from fastapi.responses import RedirectResponse

from watcher.serving.api.context import Context
from watcher.serving.api.sign_in.sign_ins import begin_session, end_session
from watcher.serving.web.addresses import root
from watcher.serving.web.forms import Form, go_to
from watcher.serving.web.rendering import plain_page

router = APIRouter(include_in_schema=False)
_LONGEST_ADDRESS = 2000
_LONGEST_LINK = 100


@router.get("/sign-in")
async def sign_in_page(
    request: Request, next_page: Annotated[str, Query(alias="next")] = "", link: str = ""
) -> Response:
    """Show the form. A link is used up by the form behind it: programs that only look at addresses must not do so."""
    return plain_page(
        request, "sign_in.html", following=next_page[:_LONGEST_ADDRESS], link=link[:_LONGEST_LINK], sentence=None
    )


@router.post("/sign-in")
async def sign_in(request: Request, context: Context, form: Form) -> Response:
    """Sign in and redirect to the requested page. After a refused token or link, show the form for a token."""
    following = form.text("next", "")[:_LONGEST_ADDRESS]
    try:
        link = form.text("link", "").strip()
        cookie = await begin_session(request, context, link or form.text("token").strip(), of_link=bool(link))
    except HTTPException as error:
        again = {"following": following, "link": "", "sentence": error.detail}
        return plain_page(request, "sign_in.html", status=error.status_code, **again)
    answer = RedirectResponse(_ours(request, following), 303)
    answer.headers["Set-Cookie"] = cookie
    return answer


@router.post("/sign-out")
async def sign_out(request: Request, context: Context) -> Response:
    answer = go_to(request, "sign-in")
    answer.headers["Set-Cookie"] = await end_session(request, context)
    return answer


def _ours(request: Request, following: str) -> str:
    """Return the address below our root. An address of another host (`//other`) becomes that of the overview."""
    is_ours = following.startswith("/") and following[1:2] not in {"/", "\\"} and following.isprintable()
    return root(request) + following[1:] if is_ours else root(request)
