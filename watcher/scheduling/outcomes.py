"""What becomes of a task instance and its run when nothing of a try is alive any more: pure rules.

finish said   the process           becomes
anything      somebody cancelled    what that one said already; here it is the end of a process only
success       exited with 0         success
success       ended otherwise       success, with a warning: an accepted finish is final
skipped       either                skipped (the run is a success), likewise
not success   we stopped it         up_for_retry at once, and it uses up no retry
not success   its home is gone      likewise, on another home
not success   its machine restarted likewise, when the daemon is back
failed        ended                 retry or failed
nothing       exited with 0         retry or failed: it left without saying how it went
nothing       … after its timeout   retry or failed: it was stopped, and its code says nothing
nothing       … and never claimed   success, with a warning: the job does not use the SDK; its outlets are told of it
nothing       ended otherwise       retry or failed
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Literal

LONGEST_DELAY: Final = timedelta(minutes=10)
_HIDES_THE_CAUSE: Final = re.compile(
    r"^(ConnectionRefusedError|ConnectionResetError|Py4JNetworkError)|Answer from Java side is empty"
    r"|\[FAILED_READ_FILE|\[TASK_WRITE_FAILED|Job aborted"
)
"""What a program is told of a JVM that has gone, and of a failure in one of its tasks."""
_STOPPED: Final = "stopped together with the daemon; it starts again with it"
_RESTARTED: Final = "lost by a restart of its machine; it starts again"
_HOME_GONE: Final = "the daemon that had started it has been gone for too long; another starts it again"


@dataclass(frozen=True, kw_only=True)
class Ending:
    """How a try ended: `exit_code` None means lost. `reason` is the submitter's sentence, `message` the job's own."""

    finish_state: str | None
    claimed: bool
    exit_code: int | None
    reason: str = ""
    message: str | None = None
    stopped: bool = False
    home_gone: bool = False
    restarted: bool = False
    timed_out: bool = False
    """It was stopped, because it ran for too long."""

    @property
    def excuse(self) -> str:
        """What a try that did not succeed is forgiven for; '' when it is not."""
        if self.home_gone:
            return _HOME_GONE
        if self.stopped:
            return _STOPPED
        return _RESTARTED if self.restarted else ""


@dataclass(frozen=True, kw_only=True)
class Retries:
    """How often and how late a failed try is repeated; `used` tries have ended and counted before this one."""

    allowed: int
    delay: timedelta
    used: int


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The task instance's and the run's next state. `retry_in` is set exactly when the state is `up_for_retry`."""

    state: Literal["success", "skipped", "failed", "up_for_retry"]
    run_state: Literal["success", "failed", "running"]
    reason: str | None = None
    warning: str | None = None
    retry_in: timedelta | None = None
    counted: bool = True
    tells_outlets: bool = False
    """The job cannot say itself that its outlets have changed, so its success does."""


def decide(ending: Ending, retries: Retries) -> Outcome:
    """Apply the table above."""
    match ending.finish_state:
        case "success" | "skipped" as state:
            warning = None if ending.exit_code == 0 else f"the job finished as {state} and then {_exit(ending)}"
            return Outcome(state=state, run_state="success", reason=ending.message, warning=warning)
        case "failed" if not ending.excuse:
            return _again_or_failed(_fuller(ending) or "the job said that it failed", retries)
    if ending.excuse:
        return _again_for_free(ending.excuse)
    if ending.exit_code == 0 and not ending.claimed and not ending.timed_out:
        return Outcome(
            state="success",
            run_state="success",
            tells_outlets=True,
            warning="the job never used the SDK: its exit code 0 is all that is known, and it was not fenced",
        )
    if ending.exit_code == 0 and not ending.timed_out:
        return _again_or_failed(
            "the job exited with 0 in the middle of `with run()`: let the block end, or raise an exception", retries
        )
    return _again_or_failed(ending.reason or f"the job {_exit(ending)}", retries)


def _fuller(ending: Ending) -> str:
    """The job's own word, unless the submitter found the same with the line where it happened, or what is behind it."""
    message = (ending.message or "").partition("\n")[0]
    is_known = message in ending.reason or (_HIDES_THE_CAUSE.search(message) and ending.reason)
    return ending.reason if is_known else ending.message or ""


def _again_for_free(reason: str) -> Outcome:
    return Outcome(state="up_for_retry", run_state="running", reason=reason, retry_in=timedelta(0), counted=False)


def _again_or_failed(reason: str, retries: Retries) -> Outcome:
    if retries.used >= retries.allowed:
        return Outcome(state="failed", run_state="failed", reason=reason)
    doubled = retries.delay.total_seconds() * 2.0 ** min(retries.used, 1000)  # a float has no end, an interval has
    delay = timedelta(seconds=min(doubled, LONGEST_DELAY.total_seconds()))
    return Outcome(state="up_for_retry", run_state="running", reason=reason, retry_in=delay)


def _exit(ending: Ending) -> str:
    if ending.exit_code is None:
        return "was lost: its process is gone without a word"
    return f"exited with {ending.exit_code}"
