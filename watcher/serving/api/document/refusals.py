"""The refusals of the API: their shapes, and the statuses that have them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pydantic import BaseModel

MAY_CONFLICT: Final[dict[int | str, dict[str, Any]]] = {
    409: {"description": "The resource is not in the state that the request expects."}
}
"""The responses of a route that refuses requests which do not fit the current state."""
MAY_MISS: Final[dict[int | str, dict[str, Any]]] = {404: {"description": "The resource does not exist."}}
"""The responses of a route whose body names the resource."""


class Refusal(BaseModel):
    """A refusal: `detail` is a sentence that names the reason and what to do."""

    detail: str


class Fault(BaseModel):
    """An error in one part of the request: `loc` is its place, and `input` is the value there if it is short."""

    type: str
    loc: list[str | int]
    msg: str
    input: str | int | float | bool | None = None
    file: str | None = None
    line: int | None = None


class Invalid(BaseModel):
    detail: str | list[Fault]


class Reason(BaseModel):
    """The reason of a refusal: `reason` is a word for programs, `message` is a sentence for people."""

    reason: str
    message: str


class JobRefusal(BaseModel):
    detail: Reason | str


class JobInvalid(BaseModel):
    detail: Reason | str | list[Fault]


SHAPES: Final = (Refusal, Invalid, JobRefusal, JobInvalid)
_WAIT: Final = {
    "Retry-After": {"description": "Seconds to wait before the next request.", "schema": {"type": "integer"}}
}
_ALLOW: Final = {"Allow": {"description": "The methods that the path has.", "schema": {"type": "string"}}}
_SIGN_IN: Final = {"WWW-Authenticate": {"schema": {"type": "string"}}}


def _response(description: str, shape: type[BaseModel] = Refusal, headers: Mapping[str, Any] | None = None) -> Any:
    content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{shape.__name__}"}}}
    return {"description": description, "content": content, **({} if headers is None else {"headers": headers})}


RESPONSES: Final[Mapping[str, Any]] = {
    "400": _response("The request is not valid HTTP, or one of its words or numbers cannot be read."),
    "401": _response("The request is not authenticated: it has no token, or the session has ended.", Refusal, _SIGN_IN),
    "403": _response("The sender's role does not permit this, or the request comes from a page of another site."),
    "404": _response("The resource does not exist."),
    "405": _response("The path does not have this method.", Refusal, _ALLOW),
    "408": _response("The headers or the body took too long to arrive."),
    "409": _response("The resource is not in the state that the request expects."),
    "413": _response("The body is too large."),
    "414": _response("The address is too long."),
    "421": _response("The request is addressed to another host."),
    "422": _response("The request has invalid content.", Invalid),
    "429": _response("Too many tokens from this address were refused.", Refusal, _WAIT),
    "431": _response("The headers are too large, or there are too many."),
    "502": _response("The watcher's source does not answer."),
    "503": _response("The database does not answer in time, or too many requests are being answered. Try again later."),
    "Job400": _response("The request is not valid HTTP, or one of its words or numbers cannot be read.", JobRefusal),
    "Job403": _response("The job, or this try, is not permitted to do this.", JobRefusal),
    "Job404": _response("The resource does not exist.", JobRefusal),
    "Job409": _response("The try is superseded, or the resource is not in the state that the job expects.", JobRefusal),
    "Job502": _response("The place of a changing password does not answer.", JobRefusal),
    "Job422": _response("The request has invalid content.", JobInvalid),
}
