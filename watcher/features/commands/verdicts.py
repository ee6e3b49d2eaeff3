"""The findings of `watcher check --connect` for people: a line for each watcher and job, and what to do. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

_AIRFLOW = "Airflow"


def verdicts(
    findings: Sequence[Mapping[str, Any]], watchers: Collection[str], jobs: Collection[str], *, details: bool
) -> str:
    """Return the lines. What is right is in them only with `details`."""
    by_subject: dict[tuple[str, str], list[Mapping[str, Any]]] = defaultdict(list)
    for kind, names in (("watcher", watchers), ("job", jobs)):
        for name in names:
            by_subject[kind, name] = []
    for finding in findings:
        kind = "watcher" if finding["watcher"] else "job" if finding["job"] else _AIRFLOW
        by_subject[kind, finding["watcher"] or finding["job"] or _AIRFLOW].append(finding)
    return "\n".join(line for (kind, name), own in by_subject.items() for line in _lines(kind, name, own, details))


def _lines(kind: str, name: str, findings: Sequence[Mapping[str, Any]], details: bool) -> Iterator[str]:
    levels = [finding["level"] for finding in findings]
    counted = [_counted(levels.count(level), level) for level in ("error", "warning") if level in levels]
    yield ", ".join([f"{name}: {_verdict(kind, has_failed='error' in levels)}", *counted])
    for finding in findings:
        if details or finding["level"] != "ok":
            remedy = f"; {finding['remedy']}" if finding["remedy"] else ""
            yield f"  {finding['level']} {finding['check']}: {finding['message']}{remedy}"


def _verdict(kind: str, *, has_failed: bool) -> str:
    match kind:
        case "watcher":
            return "would not detect" if has_failed else "exact"
        case "job":
            return "would fail" if has_failed else "can start"
    return "refuses" if has_failed else "answers"


def _counted(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"
