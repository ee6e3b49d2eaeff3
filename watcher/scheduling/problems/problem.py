"""Problems as values: the words for each, those of one cause together, the worst first. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, TypeAlias

from watcher.host.page_paths import path

Level: TypeAlias = Literal["error", "warning", "info"]
LEVELS: Final[tuple[Level, ...]] = ("error", "warning", "info")
KINDS: Final = (
    "not_ready",
    "watcher_failing",
    "run_failed",
    "running_too_long",
    "waiting_too_long",
    "late",
    "watcher_late",
    "logs",
    "undelivered",
    "bad_records",
    "waiting",
    "finding",
    "watcher_waiting",
    "process",
)
"""The kinds, the worst first within a level. Alerts are sent about those of `config.features.alerts.settings`."""
_NAMED: Final = 5
"""The members of a group that its message names."""
_VARIES: Final = re.compile(r"`[^`]*`|\S*\d\S*")


@dataclass(frozen=True, kw_only=True)
class StandingProblem:
    """Something that is wrong now. Its identity is kind and subject; `since` is None when nobody knows since when."""

    kind: str
    level: Level
    subject: Mapping[str, str]
    message: str
    public: str
    """The message for anybody, without values of a source."""
    cause: str | None = None
    """What problems of one cause have in common. None: it has a cause of its own."""
    remedy: str = ""
    since: datetime | None = None
    next_try_at: datetime | None = None
    assets: frozenset[str] = frozenset()
    """The watcher's asset, or every asset that the job reads, writes or waits for."""

    @property
    def dag_id(self) -> str | None:
        return self.subject.get("dag_id")

    @property
    def name(self) -> str:
        """The last name of the subject: the run of a job, else the only one."""
        return self.subject.get("run_id") or self.subject.get("watcher") or next(iter(self.subject.values()), self.kind)


@dataclass(frozen=True, kw_only=True)
class ProblemGroup:
    """Problems of one cause, the oldest first. The group goes by its oldest member, so its identity lasts as long as that."""

    members: Sequence[StandingProblem]

    @property
    def oldest(self) -> StandingProblem:
        return self.members[0]

    @property
    def count(self) -> int:
        return len(self.members)

    @property
    def message(self) -> str:
        return self.oldest.message + self._more

    @property
    def public(self) -> str:
        return self.oldest.public + self._more

    @property
    def sentence(self) -> str:
        """The message with the remedy."""
        return f"{self.message}; {self.remedy}" if self.remedy else self.message

    @property
    def remedy(self) -> str:
        """What to do about all members; empty: nobody has to do anything."""
        if self._are_failed_runs:
            return f"correct the cause, then run all of them again on the page /{self.page}"
        return self.oldest.remedy

    @property
    def next_try_at(self) -> datetime | None:
        return min((each.next_try_at for each in self.members if each.next_try_at is not None), default=None)

    @property
    def page(self) -> str:
        """The path of the page that shows its members."""
        if self._are_failed_runs:
            jobs = {each.dag_id for each in self.members}
            return path("runs", state="failed", job=min(map(str, jobs)) if len(jobs) == 1 else None)
        return page_of(self.oldest.subject)

    @property
    def _are_failed_runs(self) -> bool:
        return self.count > 1 and self.oldest.kind == "run_failed"

    @property
    def _more(self) -> str:
        names = [each.name for each in self.members[1 : _NAMED + 1]]
        listed = ", ".join(names) + (", …" if self.count > _NAMED + 1 else "")
        return f" (and {self.count - 1} more like it: {listed})" if names else ""


def page_of(subject: Mapping[str, str]) -> str:
    """Return the path of the web page about a problem's subject."""
    match subject:
        case {"run_id": run_id, "dag_id": dag_id}:
            return path("runs", dag_id, run_id)
        case {"dag_id": dag_id}:
            return path("jobs", dag_id)
        case {"watcher": name}:
            return path("watchers", name)
        case {"asset": _}:
            return path("assets")
    return path()


def cause_of(reason: str, *names: str) -> str:
    """Return a reason without what differs between two problems of one cause: `names`, quoted words, words with digits."""
    return _VARIES.sub("·", without(reason, *names))


def without(text: str, *names: str) -> str:
    """Return the text with a dot for each of the names, where it is a word of its own."""
    for name in names:
        text = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", "·", text)
    return text


def grouped(problems: Iterable[StandingProblem]) -> Sequence[ProblemGroup]:
    """Return the problems by cause, the worst first: by level, by kind, those with most members, the oldest."""
    groups = defaultdict[tuple[str, ...], list[StandingProblem]](list)
    for number, problem in enumerate(problems):
        cause = ("alone", str(number)) if problem.cause is None else ("of", problem.cause)
        groups[problem.kind, problem.level, *cause].append(problem)
    return sorted((ProblemGroup(members=sorted(members, key=_age)) for members in groups.values()), key=_rank)


def _rank(group: ProblemGroup) -> tuple[int, int, int, tuple[str, str]]:
    oldest = group.oldest
    return LEVELS.index(oldest.level), KINDS.index(oldest.kind), -group.count, _age(oldest)


def _age(problem: StandingProblem) -> tuple[str, str]:
    return "~" if problem.since is None else problem.since.isoformat(), problem.name
