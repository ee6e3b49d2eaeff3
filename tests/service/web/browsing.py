"""A browser without a screen: it requests HTML, follows redirects, keeps cookies, and sends forms like our pages."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass
from functools import cache
from html.parser import HTMLParser
from typing import Any

import httpx
from fastapi import FastAPI
from starlette.datastructures import State

from store.processes import tokens
from tests.service.api.application import Api
from watcher.serving.api import create_app
from watcher.serving.api.context import ApiContext

HOME = "http://localhost"


def browsing(context: ApiContext) -> httpx.AsyncClient:
    made = copy(_first(None))
    made.state = State({"context": context})
    headers = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
    transport = httpx.ASGITransport(made)
    return httpx.AsyncClient(transport=transport, base_url=HOME, headers=headers, follow_redirects=True)


@cache
def _first(context: Any) -> FastAPI:
    return create_app(context)


@dataclass
class Browser:
    client: httpx.AsyncClient
    api: Api

    async def open(self, path: str, status: int = 200) -> Page:
        answer = await self.client.get(path)
        assert answer.status_code == status, answer.text
        return Page(answer)

    async def send(self, path: str, status: int = 200, **fields: str) -> Page:
        answer = await self.client.post(path, data=fields, headers={"Origin": HOME})
        assert answer.status_code == status, answer.text
        return Page(answer)

    async def sign_in(self, role: str, **more: str) -> Page:
        async with self.api.database.transaction() as connection:
            token = (await tokens.create(connection, f"{role}-ann", role)).token
        return await self.send("/sign-in", token=token, **more)

    def asset(self, name: str) -> str:
        return f"/assets/{self.api.asset_ids[name]}"


class Page(HTMLParser):
    """The content of a page that tests need."""

    def __init__(self, answer: httpx.Response) -> None:
        super().__init__()
        self.answer = answer
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.texts: list[str] = []
        self.feed(answer.text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.texts.append(" ".join(data.split()))

    @property
    def text(self) -> str:
        return " ".join(self.texts)

    @property
    def path(self) -> str:
        return self.answer.url.raw_path.decode()

    def all(self, tag: str) -> Iterator[dict[str, str]]:
        return (attributes for name, attributes in self.elements if name == tag)

    @property
    def links(self) -> list[str]:
        """The absolute paths of all links."""
        return [self.answer.url.join(a["href"]).raw_path.decode() for a in self.all("a")]

    @property
    def forms(self) -> list[str]:
        """The targets of the page's POST forms."""
        posting = (form for form in self.all("form") if form.get("method") == "post")
        return [self.answer.url.join(form["action"]).path for form in posting]

    def with_id(self, identity: str) -> dict[str, str] | None:
        return next((a for _, a in self.elements if a.get("id") == identity), None)


def as_json(page: Page) -> Any:
    return json.loads(page.answer.text)
