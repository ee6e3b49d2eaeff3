"""Fields of submitted forms, and the redirect to a page afterwards, so that a reload repeats nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final
from urllib.parse import parse_qsl

from fastapi import Depends, HTTPException, Request
from fastapi.responses import RedirectResponse

from watcher.features.pages import addresses
from watcher.host.page_paths import path
from watcher.serving.api.parameters import BIGGEST, storable

_MOST_FIELDS: Final = 20


@dataclass(frozen=True, kw_only=True)
class FormFields:
    """The fields of a form by name. The last one of the same name counts. The methods raise 422 for invalid values."""

    fields: Mapping[str, str]

    @classmethod
    def parsed(cls, body: bytes) -> FormFields:
        """Parse the body of a form. Raise 422 for anything else."""
        try:
            pairs = parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=_MOST_FIELDS)
        except ValueError as error:
            raise HTTPException(422, f"the body is not a form ({error}); send it URL-encoded") from None
        return cls(fields=dict(pairs))

    def text(self, name: str, default: str | None = None) -> str:
        """Return a text field. Without a `default` it is required."""
        value = self.fields.get(name, default)
        if value is None:
            raise HTTPException(422, f"the form has no {name}; fill it in")
        try:
            return storable(value)
        except ValueError as error:
            raise HTTPException(422, f"{name} {error}") from None

    def number(self, name: str) -> int:
        text = self.text(name)
        if not (text.isascii() and text.isdecimal() and len(text) < len(str(BIGGEST))):
            raise HTTPException(422, f"{name} is not a number: {text[:40]!r}; use digits only")
        return int(text)


async def _form(request: Request) -> FormFields:
    return FormFields.parsed(await request.body())


Form = Annotated[FormFields, Depends(_form)]


def go_to(request: Request, *parts: object, **query: object) -> RedirectResponse:
    """Return a redirect to a page below the root."""
    return RedirectResponse(addresses.root(request) + path(*parts, **query), 303)
