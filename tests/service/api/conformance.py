"""Checks every answer of the application against its own OpenAPI document: the status, the type and the shape.

The tests' clients use this, so every answer that a test provokes must be documented.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI
from jsonschema import Draft202012Validator
from referencing import Registry
from referencing.jsonschema import DRAFT202012
from starlette.types import Message, Receive, Scope, Send

DOCUMENT = "urn:document"


class UndocumentedAnswer(AssertionError):
    pass


class Conforming:
    """The application, in which an answer that the document does not describe raises an error in the client."""

    def __init__(self, app: FastAPI, document: Document) -> None:
        self._app, self._document = app, document

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        start: Message = {}
        body = bytearray()

        async def send_and_keep(message: Message) -> None:
            if message["type"] == "http.response.start":
                start.update(message)
            else:
                body.extend(message.get("body", b""))
            await send(message)

        await self._app(scope, receive, send_and_keep)
        route = scope.get("route")
        if start and route is not None and getattr(route, "include_in_schema", False):
            self._document.check(scope, route.path_format, start, bytes(body))


class Document:
    """Return the application's OpenAPI document."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.document = document
        self._registry: Registry[Any] = Registry().with_resource(DOCUMENT, DRAFT202012.create_resource(document))

    def check(self, scope: Scope, ending: str, start: Message, body: bytes) -> None:
        """Raise `UndocumentedAnswer` if the document does not list this answer. `ending` is the end of the route's path."""
        path = next((path for path in self._paths(ending) if self._pattern(path).fullmatch(scope["path"])), "")
        method, status = scope["method"], start["status"]
        about = f"{method} {path or scope['path']}: {status}"
        operation = self.document["paths"].get(path, {}).get(method.lower())
        if operation is None and status == HTTPStatus.METHOD_NOT_ALLOWED:
            return
        if operation is None:
            raise UndocumentedAnswer(f"{about} of a route that is not in the document")
        response = operation["responses"].get(str(start["status"]))
        if response is None:
            raise UndocumentedAnswer(f"{about}: {bytes(body[:300])!r}")
        content = self._followed(response).get("content", {})
        if not content and not body:
            return
        headers = dict(start["headers"])
        kind = headers.get(b"content-type", b"").decode().partition(";")[0]
        if kind not in content:
            raise UndocumentedAnswer(f"{about} is {kind!r}, not one of {list(content)}")
        if kind == "application/json":
            self._check_shape(about, json.dumps(content[kind]["schema"]), json.loads(body))

    def _paths(self, ending: str) -> Sequence[str]:
        return [path for path in self.document["paths"] if path.endswith(ending)]

    @staticmethod
    @cache
    def _pattern(path: str) -> re.Pattern[str]:
        return re.compile(re.sub(r"\\{\w+\\}", "[^/]*", re.escape(path).replace(r"\{key\}", ".*")), re.DOTALL)

    def _followed(self, response: Mapping[str, Any]) -> Mapping[str, Any]:
        return (
            self.document["components"]["responses"][response["$ref"].rpartition("/")[2]]
            if "$ref" in response
            else response
        )

    def _check_shape(self, about: str, schema: str, answer: Any) -> None:
        if json.loads(schema) == {}:
            raise UndocumentedAnswer(f"{about} has no shape")
        for error in self._validator(schema).iter_errors(answer):
            raise UndocumentedAnswer(f"{about} at {error.json_path}: {error.message[:500]}")

    @cache  # noqa: B019  there is one for all tests
    def _validator(self, schema: str) -> Draft202012Validator:
        return Draft202012Validator(json.loads(schema.replace('"#/', f'"{DOCUMENT}#/')), registry=self._registry)
