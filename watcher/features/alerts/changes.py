"""Decides which alerts begin and end. Pure: problems and known alerts in; what to keep, report and forget out."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from hashlib import sha256
from typing import Final, Literal

from config.features.alerts.settings import AlertConfig, AlertTarget
from store.features.alerts.alerts import KnownAlert
from watcher.scheduling.problems.problem import StandingProblem

_ALL: Final = ("*",)


@dataclass(frozen=True, kw_only=True)
class Rule:
    """An entry of `settings.alerts`. `id` is a hash of the entry without its secrets: alerts of a changed entry begin anew."""

    id: str
    on: frozenset[str]
    hold: timedelta
    assets: Sequence[str]
    jobs: Sequence[str]

    @classmethod
    def of(cls, number: int, config: AlertConfig) -> Rule:
        """Return the rule of the entry with this number."""
        written = json.dumps([number, config.model_dump(mode="json", by_alias=True)], sort_keys=True)
        return cls(
            id=sha256(written.encode()).hexdigest()[:16],
            on=frozenset(config.on),
            hold=config.hold,
            assets=config.assets,
            jobs=config.jobs,
        )

    def covers(self, problem: StandingProblem) -> bool:
        of_assets = tuple(self.assets) == _ALL or any(_matches(name, self.assets) for name in problem.assets)
        of_jobs = problem.dag_id is None or _matches(problem.dag_id, self.jobs)
        return problem.kind in self.on and problem.level != "info" and of_assets and of_jobs


def rules(entries: Sequence[AlertConfig]) -> Sequence[Rule]:
    """Return the rules of `settings.alerts`."""
    return [Rule.of(number, entry) for number, entry in enumerate(entries)]


def targets(entries: Sequence[AlertConfig]) -> Mapping[str, AlertTarget]:
    """Return where the alerts of each rule go, by the rule's id."""
    return {rule.id: entry.to for rule, entry in zip(rules(entries), entries, strict=True)}


@dataclass(frozen=True, kw_only=True)
class Notice:
    """A message that an alert began or ended."""

    state: Literal["firing", "resolved"]
    known: KnownAlert


@dataclass(frozen=True, kw_only=True)
class AlertChanges:
    """What becomes of the known alerts. `fired` and `removed` are keys."""

    added: Sequence[KnownAlert]
    fired: frozenset[str]
    removed: frozenset[str]
    notices: Sequence[Notice]


def alerted(problems: Sequence[StandingProblem], begin: datetime) -> Sequence[StandingProblem]:
    """Return the problems without the runs that failed before `begin`."""
    return [each for each in problems if each.kind != "run_failed" or (each.since is not None and each.since >= begin)]


def changes(
    problems: Sequence[StandingProblem], rules: Sequence[Rule], known: Sequence[KnownAlert], now: datetime
) -> AlertChanges:
    """Begin an alert once its problem has lasted for the rule's `hold`; end it when the problem is gone."""
    present = _covered(problems, rules)
    before = {alert.key: alert for alert in known}
    holds = {rule.id: rule.hold for rule in rules}
    begun = {key: _new(key, *present[key], now) for key in present.keys() - before.keys()}
    lasting = [before.get(key) or begun[key] for key in present]
    due = [alert for alert in lasting if _is_due(alert, holds, now)]
    over = [alert for key, alert in before.items() if key not in present]
    resolved = [Notice(state="resolved", known=alert) for alert in over if alert.is_fired and alert.rule in holds]
    return AlertChanges(
        added=[alert for alert in lasting if alert.key in begun],
        fired=_keys(due),
        removed=_keys(over),
        notices=[*resolved, *(_firing(alert, present[alert.key][1]) for alert in due)],
    )


def _covered(problems: Sequence[StandingProblem], rules: Sequence[Rule]) -> Mapping[str, tuple[Rule, StandingProblem]]:
    """Return each pair of a rule and a problem that it covers, by the key of their alert."""
    pairs = [(rule, problem) for rule in rules for problem in problems if rule.covers(problem)]
    return {_key(rule, problem): (rule, problem) for rule, problem in pairs}


def _is_due(alert: KnownAlert, holds: Mapping[str, timedelta], now: datetime) -> bool:
    return not alert.is_fired and now - alert.since >= holds[alert.rule]


def _firing(alert: KnownAlert, problem: StandingProblem) -> Notice:
    """Return the notice of an alert that begins, with the problem's present message."""
    return Notice(state="firing", known=replace(alert, message=problem.message))


def _keys(alerts: Sequence[KnownAlert]) -> frozenset[str]:
    return frozenset(alert.key for alert in alerts)


def _new(key: str, rule: Rule, problem: StandingProblem, now: datetime) -> KnownAlert:
    return KnownAlert(
        key=key,
        rule=rule.id,
        alert=problem.kind,
        subject=problem.subject,
        message=problem.message,
        since=min(problem.since or now, now),
        is_fired=False,
    )


def _key(rule: Rule, problem: StandingProblem) -> str:
    text = json.dumps([rule.id, problem.kind, dict(problem.subject)], sort_keys=True)
    return sha256(text.encode()).hexdigest()


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
