"""The stylesheet, the script and the icon: read once, and addressed by their content, so that browsers may cache them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from fastapi import APIRouter, Response

from store.errors import NotFound

_FOLDER: Final = Path(__file__).parent / "static"
_TYPES: Final = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_FILES: Final[Mapping[str, bytes]] = {
    path.name: path.read_bytes() for path in _FOLDER.iterdir() if path.suffix in _TYPES
}
_KEPT: Final = {"Cache-Control": "public, max-age=31536000, immutable"}

router = APIRouter(include_in_schema=False)


def address(name: str) -> str:
    """Return the address of a file below the root. It changes with the file's content."""
    return f"static/{hashlib.sha256(_FILES[name]).hexdigest()[:12]}/{name}"


@router.get("/static/{version}/{name}")
async def file(version: str, name: str) -> Response:  # noqa: ARG001  an older page gets the present file
    """Return a file, to anyone."""
    if name not in _FILES:
        raise NotFound(f"there is no file {name!r}; load the page again")
    return Response(_FILES[name], media_type=_TYPES[Path(name).suffix], headers=_KEPT)


@router.get("/favicon.ico")
async def favicon() -> Response:
    """Return the icon, which browsers ask for at this address beside what is no page, such as JSON."""
    return await file("", "icon.svg")
