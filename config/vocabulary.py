"""The words a configuration may use that this package does not know itself; `watcher/app.py` supplies them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from pydantic import BaseModel

from config.errors import KeyPath
from config.facts import WatcherFacts
from config.models.settings import SettingsOf
from config.names import Isolation

ModelT_co = TypeVar("ModelT_co", bound=BaseModel, covariant=True)


@dataclass(frozen=True, kw_only=True)
class Checked(Generic[ModelT_co]):
    """The result of validating `data`: a `value`, or else at least one fault, each (place in `data`, sentence).

    `data` is without the keys that are reserved because they are not built.
    """

    value: ModelT_co | None
    data: Any
    faults: Sequence[tuple[KeyPath, str]]


class ForeignModel(Protocol):
    """A model whose class this process does not import: another process validates the data."""

    def check(self, data: Any, path: KeyPath, folder: Path) -> Checked[BaseModel]:
        """Validate `data`, which stands at `path` of a document in `folder`. Relative paths in it start at `folder`."""


class UnimportedOptions(Protocol):
    """Options whose class this process does not import, as `ForeignModel.check` returns them for a trigger."""

    given: Mapping[str, Any]
    """The options in the YAML, with the defaults that the asset's URI implies."""
    format: int
    """The format of the states that the trigger's class yields."""


@dataclass(frozen=True, kw_only=True)
class TriggerKind:
    """What a watcher's YAML must hold for one trigger."""

    options: type[BaseModel] | ForeignModel
    """Validates the watcher's keys other than `trigger`, `connection`, `isolation` and `pause_after_failures`."""
    isolation: Isolation = "none"
    """Where the trigger runs: what the YAML says, or the trigger's usual place."""
    connection_type: str | None
    """The `type` of the connection the watcher must name. None: it must not name one."""
    defaults: Callable[[str], Mapping[str, Any]]
    """Options that an asset's URI implies; keys in the YAML win. The URI is normalised but keeps a trailing slash,
    which matters to a prefix. May raise ValueError with a sentence."""
    facts: Callable[[BaseModel], WatcherFacts]
    """Returns what valid options say of their watcher."""


@dataclass(frozen=True, kw_only=True)
class Spelling:
    """Another way to write a trigger: a name that usually means another one, with a key of this value beside it."""

    key: str
    value: str
    trigger: str
    """The trigger that is meant, by the preferred name. It takes the same keys, `key` among them."""


@dataclass(frozen=True, kw_only=True)
class Vocabulary:
    """`trigger`, `connection` and `submitter` look up a registered name or a dotted path; all raise `UnknownClass`."""

    trigger: Callable[[str, Isolation | None], TriggerKind]
    """Looks up a trigger by its name and the `isolation` in the YAML, which is None if the YAML has none."""
    connection: Callable[[str], type[BaseModel] | ForeignModel]
    """Looks up a connection's model by the `type` in the YAML, which is also a field of the model."""
    submitter: Callable[[str], type[BaseModel]]
    """Looks up the model of a submitter's own options: the keys that a job's `spark` section may hold beside the known ones."""
    refusals: Callable[[str, Any, BaseModel], Iterable[tuple[str, str]]]
    """Yields each key of a job's `spark` section (`SparkParameters`) that this submitter could not honour, and a sentence."""
    triggers: Mapping[str, TriggerKind]
    """The registered triggers by name, for the JSON Schema."""
    connections: Mapping[str, type[BaseModel]]
    """The registered connections by `type`, for the JSON Schema."""
    submitters: Mapping[str, type[BaseModel]]
    """The registered submitters' options by name, for the JSON Schema."""
    settings: SettingsOf
    """Called before the first name is looked up, with the features that `settings.features` names: their words are known then."""
    add_plugins: Callable[[Path, frozenset[str]], None]
    """Called before the first dotted path is looked up, with `settings.plugins_dir` and the names of the environment
    variables that the configuration reads. Plug-ins must not see those variables."""
    spellings: Mapping[str, Spelling] = field(default_factory=dict)
    """Other ways to write triggers, by the name that is written."""

    def spelling(self, trigger: str, keys: Mapping[str, Any]) -> Spelling | None:
        """Return the spelling that a watcher's `trigger` is with the keys beside it; None: it is the name of what it means."""
        spelling = self.spellings.get(trigger)
        return spelling if spelling is not None and keys.get(spelling.key) == spelling.value else None
