"""A problem as a page shows it: what is wrong in a few words, the reason behind them, and the buttons (pure)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from watcher.host.page_paths import path
from watcher.scheduling.problems.problem import ProblemGroup, page_of

_WITH_REASON: Final = frozenset({"run_failed", "watcher_failing", "watcher_waiting", "bad_records"})
"""The kinds whose message is what is wrong, a colon and the reason."""


@dataclass(frozen=True, kw_only=True)
class AllLikeIt:
    """What a person may do about all problems of a cause."""

    word: str
    what: str
    about: str


_ACTIONS: Final = {
    "run_failed": AllLikeIt(
        word="Run again",
        what="runs",
        about="Each consumes the same events as before, the oldest run first, and what it wrote is replaced.",
    ),
    "bad_records": AllLikeIt(
        word="Resolve",
        what="runs",
        about="It says that you have looked at the bad records. Nothing is loaded or removed.",
    ),
    "watcher_failing": AllLikeIt(
        word="Try now", what="watchers", about="Each asks its source at once, instead of at its next try."
    ),
}


@dataclass(frozen=True, kw_only=True)
class Button:
    """A button beside a problem: it sends a form to the address, or leads to the page there about the problem's subject."""

    word: str
    address: str
    sends: bool = False


@dataclass(frozen=True, kw_only=True)
class ShownProblem:
    """The words of a link, and what follows them."""

    group: ProblemGroup
    title: str
    reason: str
    remedy: str
    buttons: tuple[Button, ...]
    """What changes something; only for those who may."""
    log: str | None
    """The address of its log, or of the line in it."""


def shown_problem(group: ProblemGroup) -> ShownProblem:
    """Return the words for problems of one cause: no id of a run stands in front of what went wrong."""
    oldest = group.oldest
    title, _, reason = oldest.message.partition(": ") if oldest.kind in _WITH_REASON else (oldest.message, "", "")
    jobs = sorted({str(each.dag_id) for each in group.members})
    of_jobs = jobs[0] if len(jobs) == 1 else f"{len(jobs):,} jobs"
    match oldest.kind:
        case "run_failed" if oldest.dag_id is not None:
            title = (
                f"{group.count:,} runs of {of_jobs} have failed"
                if group.count > 1
                else f"a run of {jobs[0]} has failed"
            )
        case "bad_records" if oldest.dag_id is not None and group.count == 1:
            title = title.replace(f"the run {oldest.subject.get('run_id')} of", "a run of")
        case "bad_records" if oldest.dag_id is not None:
            title = f"{group.count:,} runs of {of_jobs} have left out bad records"
        case "watcher_failing" | "watcher_waiting" if group.count > 1:
            title = f"{title} (and {group.count - 1:,} more watchers like it)"
        case _ if group.count > 1:
            title = group.message
    return ShownProblem(
        group=group, title=title, reason=reason, remedy=_remedy(group), buttons=_buttons(group), log=_log(group)
    )


def action_on_all(group: ProblemGroup) -> AllLikeIt | None:
    """Return what may be done about all of them; None: each needs a look of its own."""
    needed = "watcher" if group.oldest.kind == "watcher_failing" else "run_id"
    return _ACTIONS.get(group.oldest.kind) if all(needed in each.subject for each in group.members) else None


def _remedy(group: ProblemGroup) -> str:
    """Return what to do, without a command that a button beside it replaces."""
    match group.oldest.kind:
        case "run_failed":
            return "correct the cause, then run again"
        case "bad_records":
            return "look at them, then resolve"
        case "watcher_failing" if group.oldest.remedy:
            return "correct the cause, then resume"
        case _:
            return group.remedy


def _buttons(group: ProblemGroup) -> tuple[Button, ...]:
    action, oldest = action_on_all(group), group.oldest
    if action is None:
        return ()
    if group.count > 1:
        return (Button(word=f"{action.word}: all {group.count:,}", address=path("problems", oldest.kind)),)
    page = page_of(oldest.subject)
    has_given_up = oldest.kind == "watcher_failing" and bool(oldest.remedy)
    verb = "resume" if has_given_up else {"run_failed": "retry", "bad_records": "resolve"}.get(oldest.kind, "poll")
    return (Button(word="Resume" if has_given_up else action.word, address=f"{page}/{verb}", sends=True),)


def _log(group: ProblemGroup) -> str | None:
    match group.oldest.subject:
        case {"run_id": run_id, "dag_id": dag_id}:
            return path("runs", dag_id, run_id, "line")
        case {"watcher": name} if group.oldest.since is not None:
            return path("watchers", name, "log", at=group.oldest.since.isoformat()) + "#line"
        case {"watcher": name}:
            return path("watchers", name, "log")
    return None
