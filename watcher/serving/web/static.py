"""The stylesheet, the script and the icon: read once, addressed by what is in them, so that browsers may keep them."""

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
    """Of a file, below the root: another one as soon as the file is."""
    return f"static/{hashlib.sha256(_FILES[name]).hexdigest()[:12]}/{name}"


@router.get("/static/{version}/{name}")
async def file(version: str, name: str) -> Response:  # noqa: ARG001  an older page gets the file of today
    """For everybody."""
    if name not in _FILES:
        raise NotFound(f"no file {name!r}")
    return Response(_FILES[name], media_type=_TYPES[Path(name).suffix], headers=_KEPT)
