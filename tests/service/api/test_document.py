"""The OpenAPI document is complete and its examples work. Every answer in the tests is checked against it as well."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from openapi_spec_validator import validate

from tests.service.api.application import Api, adapted, application, as_json, claimed
from tests.service.api.conformance import UndocumentedAnswer
from tests.service.api.test_authorization import NAMES
from watcher.serving.api import create_app
from watcher.serving.api.app import MOST_CALLED


def operations(document: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path, operation


@pytest.fixture
async def document(api: Api) -> Any:
    return await api.get("/openapi.json")


async def test_the_document_is_valid(document: Any) -> None:
    validate(document)


async def test_every_operation_documents_its_refusals(document: Any) -> None:
    for method, path, operation in operations(document):
        statuses = operation["responses"].keys()
        assert {"400", "405", "408", "413", "414", "422", "431", "503"} <= statuses, (method, path)
        assert ({"401", "403", "429"} <= statuses) is ("security" in operation), (method, path)
        assert ("421" in statuses) is path.startswith("/api/"), (method, path)
        if "{" in path:
            assert "404" in statuses, (method, path)


@pytest.mark.parametrize("auth", ["none", "tokens"])
async def test_the_document_says_who_needs_a_token(api: Api, auth: str) -> None:
    for method, path, operation in operations(create_app(adapted(api.context, auth=auth)).openapi()):
        if "security" in operation:
            assert {"HTTPBearer": []} in operation["security"], (method, path)
            is_open = auth == "none" and path.startswith("/api/")
            assert ({} in operation["security"]) is is_open, (method, path)


async def test_every_answer_with_content_has_a_shape(document: Any) -> None:
    shapeless = [
        (method, path, status)
        for method, path, operation in operations(document)
        for status, response in operation["responses"].items()
        for content in response.get("content", {}).values()
        if not content["schema"]
    ]
    assert shapeless == []


def examples(document: Mapping[str, Any]) -> Iterator[tuple[str, str, Any, Any]]:
    """Yield method, path, schema and example of each body."""
    for method, path, operation in operations(document):
        if "requestBody" in operation:
            schema = operation["requestBody"]["content"]["application/json"]["schema"]
            name = next(part["$ref"] for part in (schema, *schema.get("anyOf", ())) if "$ref" in part)
            shape = document["components"]["schemas"][name.rpartition("/")[2]]
            (example,) = shape.get("examples", [None])
            yield method, path, shape, example


OF_THE_OWNER = {"/api/v2/sign-in-links"}
"""The paths that only an account may call that can read the daemon's home."""


async def test_every_body_has_a_valid_example(api: Api, document: Any) -> None:
    own = await claimed(api)
    names = {**NAMES, "task_instance_id": own.task_instance_id, "asset_id": api.asset_ids["orders"]}
    query = {"name": "orders", "uri": "s3://bucket/orders", "key": "k"}
    headers = {"Authorization": f"Bearer {own.token}"}
    for method, path, shape, example in sorted(examples(document), key=lambda each: "finish" in each[1]):
        assert example is not None, (method, path)
        components = {"components": document["components"]}
        Draft202012Validator({**components, **shape}).validate(example)
        sent = as_json(example)
        sent["headers"] |= headers
        params = query if path.startswith("/execution/") else None
        answer = await api.client.request(method, path.format(**names), params=params, **sent)
        wrong = {400, 401, 422, 500} if path in OF_THE_OWNER else {400, 401, 403, 422, 500}
        assert answer.status_code not in wrong, (method, path, answer.text)


async def test_an_answer_that_is_not_in_the_document_is_noticed(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    app = api.client._transport.app  # type: ignore[attr-defined]
    responses = app._document.document["paths"]["/api/v2/assets/{asset_id}"]["get"]["responses"]
    for changes in ({"404": None}, {"404": {"content": {"application/json": {"schema": {"type": "array"}}}}}):
        with monkeypatch.context() as patch:
            patch.setitem(responses, "404", changes["404"])
            with pytest.raises(UndocumentedAnswer):
                await api.client.get("/api/v2/assets/999")


async def test_the_routes_that_programs_call_most_are_tried_first(api: Api) -> None:
    paths = [getattr(route, "path", "") for route in application(api.context).routes]
    most = [path for path in paths if path in MOST_CALLED]
    assert set(most) == set(MOST_CALLED)
    assert [path for path in paths if path.startswith(("/api/", "/execution/"))][: len(most)] == most
    assert not any("{" in path for path in MOST_CALLED), "a path with a parameter could shadow others"
