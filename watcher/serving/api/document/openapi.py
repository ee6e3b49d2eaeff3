"""The OpenAPI document: what FastAPI says of the routes, and what can become of a request before and beside them.

A route itself documents its success and what it alone refuses; the rest follows from where it stands and what it takes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from fastapi import FastAPI
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from watcher.serving.api.sign_in.same_site import LOOPBACK_COOKIE, SESSION_COOKIE

MAY_CONFLICT: Final[dict[int | str, dict[str, Any]]] = {409: {"description": "The thing is not in the state you think"}}
"""For a route that refuses what does not fit the state of things."""
MAY_MISS: Final[dict[int | str, dict[str, Any]]] = {404: {"description": "There is no such thing"}}
"""For a route that is told by its body what it is about."""
_SAFE: Final = {"get", "head"}
_OPEN: Final = ("/healthz", "/readyz", "/metrics")


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


_SHAPES: Final = (Refusal, Invalid, JobRefusal, JobInvalid)
_WAIT: Final = {"Retry-After": {"description": "Seconds.", "schema": {"type": "integer"}}}
_SIGN_IN: Final = {"WWW-Authenticate": {"schema": {"type": "string"}}}


def _response(description: str, shape: type[BaseModel] = Refusal, headers: Mapping[str, Any] | None = None) -> Any:
    content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{shape.__name__}"}}}
    return {"description": description, "content": content, **({} if headers is None else {"headers": headers})}


_RESPONSES: Final[Mapping[str, Any]] = {
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


class Documented(FastAPI):
    """An application that says all that it may answer."""

    def openapi(self) -> dict[str, Any]:
        if self.openapi_schema is None:
            _complete(super().openapi())
        return super().openapi()


def _complete(document: dict[str, Any]) -> None:
    components = document["components"]
    _, shapes = models_json_schema(
        [(shape, "serialization") for shape in _SHAPES], ref_template="#/components/schemas/{model}"
    )
    components["schemas"] |= shapes["$defs"]
    for unused in ("HTTPValidationError", "ValidationError"):
        components["schemas"].pop(unused, None)
    components["responses"] = dict(_RESPONSES)
    cookies = {name: {"type": "apiKey", "in": "cookie", "name": name} for name in (SESSION_COOKIE, LOOPBACK_COOKIE)}
    components["securitySchemes"] |= cookies
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            _complete_operation(path, method, operation, cookies)


def _complete_operation(path: str, method: str, operation: dict[str, Any], cookies: Mapping[str, Any]) -> None:
    answers = operation["responses"]
    for status in _refusals(path, method, operation):
        if "content" not in answers.get(status, {}) or status == "422":
            of_jobs = f"Job{status}" if path.startswith("/execution/") else status
            name = of_jobs if of_jobs in _RESPONSES else status
            answers[status] = {"$ref": f"#/components/responses/{name}"}
    operation["responses"] = dict(sorted(answers.items()))
    if "security" in operation and path.startswith("/api/"):
        operation["security"] += [{name: []} for name in cookies]


def _refusals(path: str, method: str, operation: Mapping[str, Any]) -> Iterator[str]:
    """The statuses that follow from where a route stands, what it takes, and what it says of itself."""
    yield from ("400", "408", "413", "414", "422", "431", "503")
    yield from (status for status in ("404", "409", "502") if status in operation["responses"])
    is_of_jobs, is_signed_in = path.startswith("/execution/"), "security" in operation
    if is_signed_in:
        yield from ("401", "403", "429")
    if not is_of_jobs and path not in _OPEN:
        yield "421"
    if is_of_jobs or "{" in path:
        yield "404"
    if is_of_jobs and method not in _SAFE:
        yield "409"
