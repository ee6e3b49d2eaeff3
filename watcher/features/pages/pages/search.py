"""The search page for names, keys, events, write ids, and files and rows of the sources."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Final

from fastapi import APIRouter, Query, Response

from store.errors import InvalidValue
from store.runs import search
from triggers.explanations import as_json
from watcher.features.explain.answers import WatcherAnswer, answers, page_of
from watcher.features.pages.rendering import Pages
from watcher.serving.api.context import ApiContext
from watcher.serving.api.parameters import storable

router = APIRouter(include_in_schema=False)
_MOST = 20
"""Results of each kind at most."""
_PART_OF_PATHS: Final = frozenset("/.")


@router.get("/search")
async def results(view: Pages, q: Annotated[str, Query(max_length=4096)] = "") -> Response:
    """Show the results for `q`, or none without a text."""
    text = _searchable(q)
    if not text:
        return view.page("search.html", text=q, matches=None, items=None)
    async with view.context.database.reading() as connection:
        matches = await search.matches(connection, text, limit=_MOST)
    return view.page("search.html", text=text, matches=matches, items=await _explained(view.context, text))


@dataclass(frozen=True, kw_only=True)
class _ExplainedText:
    """What became of the item that the text may name. `refusal`: the question has to be asked otherwise."""

    answers: Sequence[tuple[WatcherAnswer, str]] = ()
    """Each answer with the address of its page."""
    refusal: str | None = None


async def _explained(context: ApiContext, text: str) -> _ExplainedText | None:
    """Ask the watchers about a text that may be a file's path or key, an id, or a row's key; None for a mere word."""
    control = context.watchers.control
    if control is None or not (_PART_OF_PATHS & set(text) or as_json(text) != text):
        return None
    try:
        told = await answers(context, control, text, None)
    except InvalidValue as error:
        return _ExplainedText(refusal=f"{error}: `watcher explain` takes --watcher")
    return _ExplainedText(answers=[(answer, page_of(answer)) for answer in told if answer.verdict.state != "outside"])


def _searchable(q: str) -> str:
    """Return the text to search for, which is empty if no database can store `q`."""
    try:
        return storable(q.strip())
    except ValueError:
        return ""
