"""What the daemon lends its submitters, and the error with which they refuse a try."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from config.models.settings import Settings
from watcher.submit.sdk_archive import sdk_archive


class SubmitError(Exception):
    """The try could not be started; the sentence names the remedy. Nothing runs, and nothing will."""

    retryable: bool = True
    """False: another try would fail in the same way."""


class NotYet(Exception):
    """The try cannot be started now, and nothing runs. The sentence is shown on the run, and it is submitted again soon."""


class TryRecords(Protocol):
    """What the metadata database knows of tries, for submitters whose drivers live elsewhere."""

    async def silence(self, tag: str) -> float:
        """Return the seconds since the try was intended, submitted, or renewed by its driver, whichever was last."""

    async def was_renewed(self, tag: str) -> bool:
        """Return whether a driver of the try has ever renewed it, which each does before it starts."""

    async def may_start(self, tag: str) -> bool:
        """Return whether this home may still start the try: nobody has taken it over, ended it or cancelled it."""

    async def kept(self) -> Collection[str]:
        """Return the tags of all tries that have not ended, or whose submitter has yet to `forget` them."""


@dataclass(frozen=True, kw_only=True)
class Workspace:
    """What the daemon lends its submitters on this machine."""

    home: Path
    """A folder on a local disk that survives restarts; a submitter makes folders of its own in it."""
    logs: Path
    """The folder of the logs. `watcher.host.logs.try_log` names a try's file in it, to which the daemon appends records."""
    python: str
    """The daemon's interpreter, for jobs that name none."""
    environment: Mapping[str, str]
    """The daemon's environment. It holds secrets, so it is not for jobs."""
    driver_memory_mb: int
    """`settings.scheduler.driver_memory_mb`: what a driver on this machine takes with the default heap of 512 MB."""
    installation: str = ""
    """The id of the metadata database: of two databases whose drivers run on one cluster, each has its own."""
    tries: TryRecords | None = None
    """What the metadata database knows of tries; None where it is not open, as for `watcher check`."""
    settings: Settings = field(default_factory=Settings)
    """The daemon's settings; those of a submitter's own feature are `settings.part(…)`. They hold secrets, so they are not for jobs."""
    event_logs: bool = False
    """Whether Spark keeps an event log of each try, in the folder `watcher.host.logs.event_logs` of `logs`."""

    def sdk_archive(self) -> Path:
        """A zip from which `import asset_job` works, to be put on the driver's import path. Raises `SubmitError`."""
        try:
            return sdk_archive(self.home)
        except OSError as error:
            raise SubmitError(f"the job SDK could not be written below {self.home}: {error}") from error


@dataclass(frozen=True, kw_only=True)
class Addresses:
    """The addresses at which the API is reached."""

    local: str
    """The address on this machine."""
    public: str | None
    """The address for other machines: `settings.api.base_url`; None when it is not set."""
