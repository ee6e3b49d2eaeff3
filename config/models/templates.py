"""Jinja2 in the configuration: the sandbox that renders it, and the check of a template before it is rendered.

A template sees only the names it is given: no clock, nothing random, no other file, no connection and no secret.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any, Final

from jinja2 import StrictUndefined, TemplateSyntaxError, nodes
from jinja2.exceptions import SecurityError
from jinja2.meta import find_undeclared_variables
from jinja2.sandbox import ImmutableSandboxedEnvironment

from config.names import did_you_mean

_OTHER_FILES: Final = (nodes.Include, nodes.Import, nodes.FromImport, nodes.Extends)
_RANDOM: Final = "random"
_FILLER: Final = "lipsum"


class Sandbox(ImmutableSandboxedEnvironment):
    """Renders templates. `extra.items` is the key `items` if there is one, not the method.

    Arithmetic that could take for ever or fill the memory is refused.
    """

    intercepted_binops = frozenset({"*", "**"})

    def __init__(self) -> None:
        super().__init__(undefined=StrictUndefined, autoescape=False, keep_trailing_newline=True, finalize=_isoformat)
        del self.filters[_RANDOM], self.globals[_FILLER]

    def getattr(self, obj: Any, attribute: str) -> Any:
        if isinstance(obj, Mapping) and attribute in obj:
            return obj[attribute]
        return super().getattr(obj, attribute)

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        if operator == "**":
            raise SecurityError("`**` is not allowed")
        if not (isinstance(left, int | float) and isinstance(right, int | float)):
            raise SecurityError(f"`{operator}` works on two numbers only")
        return super().call_binop(context, operator, left, right)


def _isoformat(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else value


def is_template(text: str) -> bool:
    """Whether Jinja2 would render `text` as anything but itself."""
    return any(mark in text for mark in ("{{", "{%", "{#"))


def template_fault(text: str, names: Collection[str]) -> str | None:
    """Why `text` cannot be rendered with these names, as the end of a sentence; None if it can."""
    sandbox = Sandbox()
    try:
        tree = sandbox.parse(text)
        sandbox.compile(text)  # filters and tests are looked up only here
    except TemplateSyntaxError as error:
        return f"is not a valid Jinja2 template: {(error.message or '').rstrip('.')}"
    if next(tree.find_all(_OTHER_FILES), None) is not None:
        return "is a template that includes another; write it out"
    unknown = sorted(find_undeclared_variables(tree) - {*names, *sandbox.globals})
    return (
        f"uses `{unknown[0]}`, which templates here do not have; {did_you_mean(unknown[0], names)}" if unknown else None
    )
