"""Classes of the user by dotted path, on `settings.plugins_dir` or installed, and what they say of a watermark."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel

from config.errors import UnknownClass

NO_ISOLATION: Final = (
    "the feature `isolation` is not there: write `isolation: none`, and the trigger runs in this process"
)
"""Why a trigger cannot have a process of its own, and the remedy."""


@dataclass(frozen=True, kw_only=True)
class WatermarkDescription:
    """What a trigger's class says of a watermark: a sentence for people, and numbers for Prometheus by their names."""

    sentence: str = ""
    """One sentence, or a text of `fault`'s when the class failed; empty when there is nothing to say."""
    gauges: Mapping[str, float] = field(default_factory=dict)
    fault: str | None = None
    """Why the class could not describe the watermark, and the remedy. None when it could."""


_MISSPELT: Final = {True: 0.93, False: 0.75}
"""How like a registered name a dotted path must be to be that name, misspelt, by whether it could be that of a class."""


class NotRevealed(Exception):
    """A connection's class could not say what jobs get. The text is the type of what it raised: its words may hold a secret."""


def add_to_import_path(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.append(str(folder))


def plugin_class(name: str, base: type, registered: Sequence[str] = ()) -> Any:
    """Return the subclass of `base` with this dotted path. Raises `UnknownClass`; `registered` are names that may be meant."""
    module_name, _, class_name = name.rpartition(".")
    try:
        plugin = getattr(importlib.import_module(module_name), class_name, None)
    except (Exception, SystemExit) as error:  # a plug-in's own code may raise anything
        raise not_imported(name, str(error), registered) from error
    if not (inspect.isclass(plugin) and issubclass(plugin, base)):
        raise UnknownClass(f"`{name}` is not a subclass of {base.__module__}.{base.__name__}", registered)
    if missing := ", ".join(f"`{method}`" for method in sorted(getattr(plugin, "__abstractmethods__", ()))):
        raise UnknownClass(f"`{name}` does not define {missing}; add it to the class")
    return plugin


def not_imported(name: str, reason: str, registered: Sequence[str] = ()) -> UnknownClass:
    """Return why a class is not there: it is probably one of `registered`, misspelt, or it cannot be imported for this reason."""
    module, _, word = name.rpartition(".")
    is_module_missing = f"No module named '{module}'" in reason
    if is_module_missing and (module in _families(registered) or _is_misspelt(name, word, registered)):
        return UnknownClass(f"there is no `{name}`", registered)
    return UnknownClass(
        f"`{name}` cannot be imported ({reason}); fix it, or put it on `settings.plugins_dir`", registered
    )


def _families(registered: Sequence[str]) -> frozenset[str]:
    """The first words of registered names: `file` of `file.new_files`."""
    return frozenset(name.partition(".")[0] for name in registered if "." in name)


def _is_misspelt(name: str, word: str, registered: Sequence[str]) -> bool:
    return bool(get_close_matches(name.casefold(), registered, n=1, cutoff=_MISSPELT[word != word.lower()]))


def check_options(name: str, plugin: type) -> None:
    """Raise `UnknownClass` for a class without a model of its keys."""
    if not (inspect.isclass(options := getattr(plugin, "Options", None)) and issubclass(options, BaseModel)):
        raise UnknownClass(f"`{name}` has no `Options`, the pydantic model of its keys; add it to the class")
