"""What the API works with; `watcher/app.py` builds it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import anyio
from fastapi import Depends, Request

from store.database import Database
from store.processes.triggerers import SigningKeys
from store.state.attributed import AttributedEntries
from watcher.configuration.reload_outcome import ReloadOutcome
from watcher.configuration.vocabulary import Descriptions
from watcher.host.health import Health
from watcher.host.logs.followers import Followers
from watcher.host.loops import Hint
from watcher.host.metrics import Metrics
from watcher.serving.api.event_posts import EventPosts
from watcher.serving.api.sign_in.known_tokens import KnownTokens
from watcher.serving.api.sign_in.same_site import Site
from watcher.serving.api.sign_in.throttle import Failures
from watcher.serving.api.streams.live import LiveChanges
from watcher.serving.api.streams.open_streams import Streams
from watcher.submit.base import Submitter
from watcher.triggerer.control import Control


@dataclass(frozen=True, kw_only=True)
class ApiContext:
    """What the routes need; `hint` is called after a commit that gave somebody something to do."""

    database: Database
    entries: AttributedEntries
    secrets: Sequence[bytes]
    """Of these the first signs the tokens of tries, and all verify."""
    auth: Literal["tokens", "none"]
    base_url: str | None
    """Put before links; None makes them paths."""
    logs_directory: Path
    max_value_storage_bytes: int
    default_retention_days: int
    clear_on_success: bool
    hint: Callable[[Hint], None]
    configuration_hash: str | None
    """Of the configuration this process runs; None does not compare it with the one applied last."""
    signing_keys: SigningKeys | None = None
    """What the process has published of its secrets; None where it is alone."""
    worker_backend: Mapping[str, Any] | None = None
    """What jobs are told of the worker-side backend: `{path, options}`."""
    site: Site = field(default_factory=Site)
    """Where browsers find it."""
    body_bytes: int = 1_000_000
    """What a request of a person or tool may hold beside the longest value."""
    execution_body_bytes: int = 16_000_000
    """What a job's request may hold: its values have no limit of their own, as in Airflow."""
    anonymous: str = "anonymous"
    """Who acts when `auth` is none."""
    health: Health = field(default_factory=Health)
    """How this process is doing."""
    streams: Streams = field(default_factory=Streams)
    """The answers that go on for as long as somebody listens."""
    followers: Followers = field(default_factory=Followers)
    """Of the logs."""
    changes: LiveChanges = field(default_factory=LiveChanges)
    """What streams tell of."""
    stopping: anyio.Event = field(default_factory=anyio.Event)
    """Set when the process ends: streams end at once."""
    on_watermark: Callable[[int, str], None] = lambda _asset_id, _key: None
    """Called when the copy of a watermark entry (asset id, key) in a backend of its own may be gone."""
    submitters: Mapping[str, Submitter] = field(default_factory=dict)
    """By the name that is stored with a try, for logs that are kept where drivers run."""
    reload: Callable[[str], Awaitable[ReloadOutcome]] | None = None
    """Reads the configuration again, for this actor; None without a daemon. Raises `ReloadRefused`."""
    control: Control | None = None
    """What moves positions; None where the watchers are not known."""
    metrics: Metrics = field(default_factory=Metrics)
    known_tokens: KnownTokens = field(default_factory=KnownTokens)
    """Tokens that were right a moment ago; by default none is trusted without asking the database."""
    failures: Failures = field(default_factory=Failures)
    """Tokens that were refused."""
    event_posts: EventPosts = field(default_factory=EventPosts)
    """Those that wait to be stored."""
    spark_history_url: str | None = None
    """Spark's history server, for the links of tries."""
    descriptions: Descriptions = field(default_factory=Descriptions)
    """What triggers say of their watermarks."""

    def followed_by(self, new: ApiContext) -> ApiContext:
        """What an application goes on with after a reload: what it counts of its clients goes on, too."""
        return replace(new, streams=self.streams, failures=self.failures, changes=self.changes)


async def of_app(request: Request) -> ApiContext:
    """The context of the application that answers."""
    context: ApiContext = request.app.state.context
    return context


Context = Annotated[ApiContext, Depends(of_app)]
