"""Airflow's bulk requests: many changes in one request, each with a result of its own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated, Any, Generic, Literal, TypeAlias, TypeVar

from fastapi import HTTPException
from pydantic import BaseModel, Field

from store.errors import StoreError
from watcher.serving.api.errors import status_of
from watcher.serving.api.parameters import Body, Text
from watcher.serving.api.shapes.base import Shape

T = TypeVar("T", bound=BaseModel)
_IfMissing: TypeAlias = Literal["fail", "skip"]


class BulkCreateAction(Body, Generic[T]):
    action: Literal["create"]
    entities: list[T]
    action_on_existence: Literal["fail", "skip", "overwrite"] = "fail"


class BulkUpdateAction(Body, Generic[T]):
    """Entities to change. `update_mask` names the members that are applied; the others are ignored."""

    action: Literal["update"]
    entities: list[T]
    update_mask: list[str] | None = None
    action_on_non_existence: _IfMissing = "fail"


class BulkDeleteAction(Body, Generic[T]):
    """Entities to delete. An entity may be given by its id alone."""

    action: Literal["delete"]
    entities: list[Text | T]
    action_on_non_existence: _IfMissing = "fail"


class BulkBody(Body, Generic[T]):
    actions: list[
        Annotated[BulkCreateAction[T] | BulkUpdateAction[T] | BulkDeleteAction[T], Field(discriminator="action")]
    ]


class BulkActionResponse(Shape):
    """The ids of the entities that were changed, and the errors of the others: `{error, status_code}` each."""

    success: Sequence[str] = ()
    errors: Sequence[Mapping[str, Any]] = ()


class BulkResponse(Shape):
    """The results by kind of action. A kind that was not requested is null."""

    create: BulkActionResponse | None = None
    update: BulkActionResponse | None = None
    delete: BulkActionResponse | None = None


async def apply_each(body: BulkBody[T], change: Callable[[Any, T | str], Awaitable[str]]) -> BulkResponse:
    """Apply `change(action, entity)`, which returns the entity's id, to each entity. A refused entity does not stop the others."""
    answers: dict[str, BulkActionResponse] = {}
    for action in body.actions:
        before = answers.get(action.action, BulkActionResponse())
        done, refused = list(before.success), list(before.errors)
        for entity in action.entities:
            try:
                done.append(await change(action, entity))
            except (StoreError, HTTPException) as error:
                status = status_of(error)
                if status == 404 and getattr(action, "action_on_non_existence", "fail") == "skip":  # noqa: PLR2004
                    continue
                sentence = error.detail if isinstance(error, HTTPException) else str(error)
                refused.append({"error": sentence, "status_code": status})
        answers[action.action] = BulkActionResponse(success=done, errors=refused)
    return BulkResponse(create=answers.get("create"), update=answers.get("update"), delete=answers.get("delete"))
