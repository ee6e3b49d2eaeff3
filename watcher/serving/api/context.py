"""The context that the routes work with, in groups. `watcher/serving/room.py` builds it for a daemon."""

from __future__ import annotations

import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol, Self, TypeVar, cast

import anyio
from fastapi import Depends, Request

from store.database import Database
from store.detection.interest import EventHooks
from store.processes.triggerers import SigningKeys
from store.runs.tries.changed_items import NO_ITEM_HOOKS, ItemHooks
from store.state.attributed import AttributedEntries
from watcher.configuration.reload_outcome import ReloadOutcome
from watcher.configuration.vocabulary import Descriptions
from watcher.host.health import Health
from watcher.host.logs.followers import Followers
from watcher.host.loops import Hint
from watcher.host.metrics import Metrics
from watcher.installed import Installed, installed
from watcher.scheduling.planning.base import Planners
from watcher.serving.api.event_posts import EventPosts
from watcher.serving.api.sign_in.recent_tokens import Failures, KnownTokens
from watcher.serving.api.sign_in.same_site import Site
from watcher.serving.api.streams.live import LiveChanges
from watcher.serving.api.streams.open_streams import Streams
from watcher.submit.base import Submitter
from watcher.triggerer.control import Control


@dataclass(frozen=True, kw_only=True)
class SignIn:
    """Authentication: who may send requests, and how senders prove who they are."""

    secrets: Sequence[bytes]
    """The first secret signs the tokens of tries; every one of them verifies."""
    auth: Literal["tokens", "none"] = "tokens"
    anonymous: str = "anonymous"
    """The actor when `auth` is none."""
    site: Site = field(default_factory=Site)
    """The addresses at which browsers reach this process."""
    signing_keys: SigningKeys | None = None
    """The digests of its secrets that this process has published. None when no other process could have different ones."""
    known_tokens: KnownTokens = field(default_factory=KnownTokens)
    """Tokens that were valid a moment ago. The default asks the database about every token."""
    failures: Failures = field(default_factory=Failures)
    """How many tokens of each client were refused lately."""


@dataclass(frozen=True, kw_only=True)
class RequestLimits:
    """The limits of requests and of the values they store."""

    max_value_storage_bytes: int
    default_retention_days: int
    event_retention_days: int = 90
    run_retention_days: int = 90
    body_bytes: int = 1_000_000
    """Bytes that a request of a person or tool may have in addition to the longest value."""
    execution_body_bytes: int = 16_000_000
    """Bytes that a job's request may have. Its values have no limit of their own, as in Airflow."""


@dataclass(frozen=True, kw_only=True)
class Links:
    """The addresses that answers point to."""

    base_url: str | None = None
    """The prefix of every link. None makes links paths."""
    spark_history_url: str | None = None
    """Spark's history server, for the links of tries."""
    docs_url: str | None = None
    """The documentation, for the link in the header of the pages."""


@dataclass(frozen=True, kw_only=True)
class LiveAnswers:
    """Answers that continue for as long as a client listens."""

    streams: Streams = field(default_factory=Streams)
    followers: Followers = field(default_factory=Followers)
    """The followers of log files."""
    changes: LiveChanges = field(default_factory=LiveChanges)
    """The changes that streams send."""
    stopping: anyio.Event = field(default_factory=anyio.Event)
    """Set when the process ends. Streams then end at once."""


@dataclass(frozen=True, kw_only=True)
class ProcessState:
    """The state of the process that answers."""

    configuration_hash: str | None = None
    """The hash of the configuration that this process runs. None disables the comparison with the one applied last."""
    health: Health = field(default_factory=Health)
    metrics: Metrics = field(default_factory=Metrics)
    reload: Callable[[str], Awaitable[ReloadOutcome]] | None = None
    """Reads the configuration again for the given actor. Raises `ReloadRefused`. None without a daemon."""


@dataclass(frozen=True, kw_only=True)
class WatcherControl:
    """The control of watchers by people, and the descriptions of their watermarks."""

    control: Control | None = None
    """Moves positions. None in a process that does not know the watchers."""
    descriptions: Descriptions = field(default_factory=Descriptions)
    """The sentences in which triggers describe their watermarks."""
    on_watermark: Callable[[int, str], None] = lambda _asset_id, _key: None
    """Called with an asset id and a key when a store backend may have lost its copy of that watermark entry."""


@dataclass(frozen=True, kw_only=True)
class JobSupport:
    """The settings and submitters that routes for the tries of jobs use."""

    clear_on_success: bool = False
    submitters: Mapping[str, Submitter] = field(default_factory=dict)
    """Submitters by the name that is stored with a try. They read logs that are kept where drivers run."""
    connection: Callable[[str, str], Awaitable[Mapping[str, Any] | None]] | None = None
    """Returns a connection of a job as it is now, given the job's and the connection's names. None without a daemon."""
    worker_backend: Mapping[str, Any] | None = None
    """The worker-side backend for jobs: `{path, options}`. None if none is configured."""


class FeatureState(Protocol):
    """What a feature keeps in the process that answers, from its first use on."""

    @classmethod
    def of_context(cls, context: ApiContext) -> Self:
        """Make it from the context of the first request that needs it."""


StateT = TypeVar("StateT", bound=FeatureState)


@dataclass(frozen=True, kw_only=True)
class ApiContext:
    """The context of an application: everything that its routes need."""

    database: Database
    entries: AttributedEntries
    logs_directory: Path
    hint: Callable[[Hint], None]
    """Called after a commit that created work for a task or process."""
    hooks: EventHooks
    """What the features do in the transactions of events that are posted, or that jobs report."""
    sign_in: SignIn
    limits: RequestLimits
    home: Path = field(default_factory=lambda: Path(tempfile.gettempdir()))
    """A folder of this process alone, for what does not fit into its memory."""
    links: Links = field(default_factory=Links)
    live: LiveAnswers = field(default_factory=LiveAnswers)
    process: ProcessState = field(default_factory=ProcessState)
    watchers: WatcherControl = field(default_factory=WatcherControl)
    jobs: JobSupport = field(default_factory=JobSupport)
    item_hooks: ItemHooks = NO_ITEM_HOOKS
    """What the features know of items of runs that are not as their events say."""
    planners: Planners = field(default_factory=Planners)
    """The planners of jobs whose `batch.mode` is a feature's."""
    event_posts: EventPosts = field(default_factory=EventPosts)
    """Posted events that wait to be stored."""
    features: Installed = field(default_factory=installed)
    """The features whose routes and pages there are."""
    states: dict[type[FeatureState], FeatureState] = field(default_factory=dict)
    """What features keep for as long as the process lives, by class."""

    def of(self, kind: type[StateT]) -> StateT:
        """Return the one object of this class, which a feature's routes share, also after a reload. It is made on first use."""
        if kind not in self.states:
            self.states[kind] = kind.of_context(self)
        return cast("StateT", self.states[kind])

    def followed_by(self, new: ApiContext) -> ApiContext:
        """Return `new` with this context's counts of clients, its streams and its features' states, which go on after a reload."""
        sign_in = replace(new.sign_in, failures=self.sign_in.failures)
        live = replace(new.live, streams=self.live.streams, changes=self.live.changes)
        return replace(new, sign_in=sign_in, live=live, states=self.states)


async def of_app(request: Request) -> ApiContext:
    """Return the context of the application that answers the request."""
    context: ApiContext = request.app.state.context
    return context


Context = Annotated[ApiContext, Depends(of_app)]
