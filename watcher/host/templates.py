"""Renders a template of the configuration within bounds. `config.models.templates` has the sandbox."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from types import FrameType
from typing import Any, Final

from jinja2 import TemplateError

from config.models.templates import Sandbox

LONGEST: Final = 1.0
"""The limit, in seconds, for one template."""
LARGEST: Final = 100_000
"""The limit, in bytes, for one text."""


class TemplateFailed(Exception):
    """The template could not be rendered. The sentence says why and follows the name of the template's place."""


class _TooLong(Exception):
    pass


class _Deadline:
    """A trace function that ends what runs in this thread after a deadline, also loops without output."""

    def __init__(self, seconds: float) -> None:
        self._ends = time.monotonic() + seconds

    def __call__(self, _frame: FrameType, _event: str, _argument: Any) -> _Deadline:
        if time.monotonic() > self._ends:
            raise _TooLong
        return self


def render(template: str, context: Mapping[str, Any], *, seconds: float = LONGEST, size: int = LARGEST) -> str:
    """Return the text. Raises `TemplateFailed`. Takes up to `seconds`, so it is not for the event loop's thread."""
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
