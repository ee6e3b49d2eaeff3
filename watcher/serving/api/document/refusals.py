"""What the API answers beside the success that a route documents: the shapes of refusals, and the statuses that have them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pydantic import BaseModel

MAY_CONFLICT: Final[dict[int | str, dict[str, Any]]] = {409: {"description": "The thing is not in the state you think"}}
"""For a route that refuses what does not fit the state of things."""
MAY_MISS: Final[dict[int | str, dict[str, Any]]] = {404: {"description": "There is no such thing"}}
"""For a route that is told by its body what it is about."""


class Refusal(BaseModel):
    """A sentence that says what to do."""

    detail: str


class Fault(BaseModel):
    """What is wrong with a part of the request; `loc` is where, `input` what stands there if it is short."""

    type: str
    loc: list[str | int]
    msg: str
    input: str | int | float | bool | None = None
    file: str | None = None
    line: int | None = None


class Invalid(BaseModel):
    detail: str | list[Fault]


class Reason(BaseModel):
    """`reason` is a word for programs."""

    reason: str
    message: str


class JobRefusal(BaseModel):
    detail: Reason | str


class JobInvalid(BaseModel):
    detail: Reason | str | list[Fault]


SHAPES: Final = (Refusal, Invalid, JobRefusal, JobInvalid)
_WAIT: Final = {"Retry-After": {"description": "Seconds.", "schema": {"type": "integer"}}}
_SIGN_IN: Final = {"WWW-Authenticate": {"schema": {"type": "string"}}}


def _response(description: str, shape: type[BaseModel] = Refusal, headers: Mapping[str, Any] | None = None) -> Any:
    content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{shape.__name__}"}}}
    return {"description": description, "content": content, **({} if headers is None else {"headers": headers})}


RESPONSES: Final[Mapping[str, Any]] = {
    "400": _response("The request is no HTTP, or a word or number in it cannot be read."),
    "401": _response("Nobody says who asks: there is no token, or the session is over.", Refusal, _SIGN_IN),
    "403": _response("Who asks may not; or a page of another site does."),
    "404": _response("There is no such thing."),
    "408": _response("The headers or the body took too long."),
    "409": _response("The thing is not in the state you think."),
    "413": _response("The body is too large."),
    "414": _response("The address is too long."),
    "421": _response("The request is meant for another host."),
    "422": _response("What was sent breaks a rule.", Invalid),
    "429": _response("Too many tokens of this address were refused.", Refusal, _WAIT),
    "431": _response("The headers are too large, or too many."),
    "502": _response("The watcher's source does not answer."),
    "503": _response("The database does not answer in time, or too many are being answered: try again."),
    "Job400": _response("The request is no HTTP, or a word or number in it cannot be read.", JobRefusal),
    "Job403": _response("The job, or this try of it, may not.", JobRefusal),
    "Job404": _response("There is no such thing.", JobRefusal),
    "Job409": _response("The try is superseded, or the thing is not in the state the job thinks.", JobRefusal),
    "Job422": _response("What was sent breaks a rule.", JobInvalid),
}
