"""The words a configuration may use that this package does not know itself; `watcher/app.py` supplies them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Literal, Protocol, TypeAlias, TypeVar

from pydantic import BaseModel

from config.document import KeyPath

ModelT_co = TypeVar("ModelT_co", bound=BaseModel, covariant=True)
Isolation: TypeAlias = Literal["process", "none"]


@dataclass(frozen=True, kw_only=True)
class Checked(Generic[ModelT_co]):
    """What became of `data` without its keys that are not built: a value, or a place in it and a sentence for each mistake."""

    value: ModelT_co | None
    data: Any
    faults: Sequence[tuple[KeyPath, str]]


class ForeignModel(Protocol):
    """A model whose class this process does not import: another process checks what is given."""

    def check(self, data: Any, path: KeyPath, folder: Path) -> Checked[BaseModel]:
        """`data` at `path` of a document in `folder`; relative paths start there."""


@dataclass(frozen=True, kw_only=True)
class TriggerKind:
    """What a watcher's YAML must hold for one trigger."""

    options: type[BaseModel] | ForeignModel
    """Validates the watcher's keys other than `trigger`, `connection`, `isolation` and `pause_after_failures`."""
    isolation: Isolation = "none"
    """Where the trigger runs: what the YAML says, else what is usual for it."""
    connection_type: str | None
    """The `type` of the connection the watcher must name; None: it must name none."""
    defaults: Callable[[str], Mapping[str, Any]]
    """Options that an asset's URI implies; keys in the YAML win. The URI is normalised but keeps a trailing slash,
    which matters to a prefix. May raise ValueError with a sentence."""


@dataclass(frozen=True, kw_only=True)
class Vocabulary:
    """`trigger`, `connection` and `submitter` look up a registered name or a dotted path; all raise `UnknownClass`."""

    trigger: Callable[[str, Isolation | None], TriggerKind]
    """By name and by the `isolation` in the YAML; None where it says nothing."""
    connection: Callable[[str], type[BaseModel] | ForeignModel]
    """By the `type` in the YAML, which is a field of the model."""
    submitter: Callable[[str], type[BaseModel]]
    """Of a job's submitter: what its `spark` section may hold beside the known keys."""
    triggers: Mapping[str, TriggerKind]
    """The registered names, for the JSON Schema; so are `connections` and `submitters`."""
    connections: Mapping[str, type[BaseModel]]
    submitters: Mapping[str, type[BaseModel]]
    add_plugins: Callable[[Path, frozenset[str]], None]
    """Called before the first dotted path is looked up, with `settings.plugins_dir` and the names of the environment that
    the configuration reads, which are nothing for a plug-in to see."""
