"""The page to sign in with a token or a link, and signing out.

Whoever sent a form after the session had ended signs in on the spot, sees what the form was about, and sends it again with a
click. Nothing is done by signing in.
"""

from __future__ import annotations

from typing import Annotated, Final
from urllib.parse import unquote, urlsplit

from fastapi import APIRouter, HTTPException, Query, Request, Response
from fastapi.responses import RedirectResponse

from watcher.features.pages import addresses
from watcher.features.pages.addresses import root
from watcher.features.pages.forms import Form, FormFields, go_to
from watcher.features.pages.rendering import plain_page
from watcher.serving.api.context import Context, of_app
from watcher.serving.api.sign_in.sign_ins import begin_session, end_session

router = APIRouter(include_in_schema=False)
_LONGEST_ADDRESS: Final = 2000
_LONGEST_LINK: Final = 100
_LONGEST_FORM: Final = 8000
_ENDED: Final = "The session has ended. Sign in, then go on with what you began; nothing has been done yet."


@router.get("/sign-in")
async def sign_in_page(
    request: Request, next_page: Annotated[str, Query(alias="next")] = "", link: str = ""
) -> Response:
    """Show the form. A link is used up by the form behind it: programs that only look at addresses must not do so."""
    return plain_page(
        request,
        "sign_in.html",
        following=next_page[:_LONGEST_ADDRESS],
        link=link[:_LONGEST_LINK],
        sentence=None,
        action="",
        fields="",
    )


async def ask_to_sign_in(request: Request) -> Response:
    """Answer somebody who is not signed in. A form that one of our pages has sent is kept on the sign-in page."""
    site, action = (await of_app(request)).sign_in.site, addresses.raw_path(request)
    is_ours = request.method == "POST" and site.refusal(request.scope, everybody_may=True) is None
    body = await request.body() if is_ours and len(action) <= _LONGEST_ADDRESS else b""
    if not is_ours or len(body) > _LONGEST_FORM or not body.isascii():
        return RedirectResponse(addresses.sign_in(request), 303)
    left = urlsplit(request.headers.get("referer", ""))
    prefix = urlsplit(site.base_url or "").path.rstrip("/")
    following = left.path.removeprefix(prefix) + (f"?{left.query}" if left.query else "")
    kept = {"following": following[:_LONGEST_ADDRESS], "action": action, "fields": body.decode()}
    return plain_page(request, "sign_in.html", status=401, link="", sentence=_ENDED, **kept)


@router.post("/sign-in")
async def sign_in(request: Request, context: Context, form: Form) -> Response:
    """Sign in and redirect to the requested page. After a refused token or link, show the form for a token."""
    following = form.text("next", "")[:_LONGEST_ADDRESS]
    action, fields = form.text("action", "")[:_LONGEST_ADDRESS], form.text("fields", "")[:_LONGEST_FORM]
    try:
        link = form.text("link", "").strip()
        cookie = await begin_session(request, context, link or form.text("token").strip(), of_link=bool(link))
    except HTTPException as error:
        again = {"following": following, "link": "", "sentence": error.detail, "action": action, "fields": fields}
        return plain_page(request, "sign_in.html", status=error.status_code, **again)
    answer = _go_on(request, following, action, fields) if action else RedirectResponse(_ours(request, following), 303)
    answer.headers["Set-Cookie"] = cookie
    return answer


def _go_on(request: Request, following: str, action: str, fields: str) -> Response:
    """Show the form that was sent too late, to be sent again."""
    return plain_page(
        request,
        "go_on.html",
        action=_ours(request, action),
        what=unquote(action),
        fields=FormFields.parsed(fields.encode()).fields,
        back=_ours(request, following),
    )


@router.post("/sign-out")
async def sign_out(request: Request, context: Context) -> Response:
    answer = go_to(request, "sign-in")
    answer.headers["Set-Cookie"] = await end_session(request, context)
    return answer


def _ours(request: Request, following: str) -> str:
    """Return the address below our root. An address of another host (`//other`) becomes that of the overview."""
    is_ours = following.startswith("/") and following[1:2] not in {"/", "\\"} and following.isprintable()
    return root(request) + following[1:] if is_ours else root(request)
