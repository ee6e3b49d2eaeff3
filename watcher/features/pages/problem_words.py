"""A problem as a page shows it: what is wrong in a few words, which lead to it, and the reason behind them (pure)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from watcher.scheduling.problems.problem import ProblemGroup

_WITH_REASON: Final = frozenset({"run_failed", "watcher_failing", "watcher_waiting", "bad_records"})
"""The kinds whose message is what is wrong, a colon and the reason."""


@dataclass(frozen=True, kw_only=True)
class ShownProblem:
    """The words of a link, and what follows them."""

    group: ProblemGroup
    title: str
    reason: str


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
    return ShownProblem(group=group, title=title, reason=reason)
