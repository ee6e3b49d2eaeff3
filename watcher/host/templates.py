"""Rendering a template of the configuration within bounds; `config.templates` has the sandbox."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from types import FrameType
from typing import Any, Final

from jinja2 import TemplateError

from config.templates import Sandbox

LONGEST: Final = 1.0
"""Seconds for one template."""
LARGEST: Final = 100_000
"""Bytes of one text."""


class TemplateFailed(Exception):
    """It could not be rendered; the sentence says why, to follow the template's place."""


class _TooLong(Exception):
    pass


class _Deadline:
    """A trace function that ends what runs in this thread past a moment, loops without output included."""

    def __init__(self, seconds: float) -> None:
        self._ends = time.monotonic() + seconds

    def __call__(self, _frame: FrameType, _event: str, _argument: Any) -> _Deadline:
        if time.monotonic() > self._ends:
            raise _TooLong
        return self


def render(template: str, context: Mapping[str, Any], *, seconds: float = LONGEST, size: int = LARGEST) -> str:
    """The text. Raises `TemplateFailed`. Takes up to `seconds`: not for the event loop's thread."""
    compiled = Sandbox().from_string(template)
    before, parts, length = sys.gettrace(), [], 0
    sys.settrace(_Deadline(seconds))
    try:
        for part in compiled.generate(context):
            length += len(part.encode())
            if length > size:
                raise TemplateFailed(f"gives more than {size:,} bytes")
            parts.append(part)
    except _TooLong:
        raise TemplateFailed(f"was not rendered within {seconds:g} s") from None
    except (TemplateError, ArithmeticError, LookupError, TypeError, ValueError, AttributeError) as error:
        raise TemplateFailed(f"cannot be rendered: {error}") from None
    finally:
        sys.settrace(before)
    return "".join(parts)
