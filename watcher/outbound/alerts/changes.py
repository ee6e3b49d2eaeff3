"""Decides which alerts begin and end. Pure: complaints and known alerts in; what to keep, report and forget out."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from hashlib import sha256
from typing import Final, Literal

from config.models.alerts import AlertConfig, AlertTarget
from store.processes.alerts import KnownAlert

_ALL: Final = ("*",)


@dataclass(frozen=True, kw_only=True)
class Complaint:
    """Something that is wrong now. `since` is None when nobody knows since when."""

    alert: str
    subject: Mapping[str, str]
    message: str
    assets: frozenset[str]
    """The watcher's asset, or every asset that the job reads, writes or waits for."""
    dag_id: str | None = None
    since: datetime | None = None


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

    def covers(self, complaint: Complaint) -> bool:
        of_assets = tuple(self.assets) == _ALL or any(_matches(name, self.assets) for name in complaint.assets)
        of_jobs = complaint.dag_id is None or _matches(complaint.dag_id, self.jobs)
        return complaint.alert in self.on and of_assets and of_jobs


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


def changes(
    complaints: Sequence[Complaint], rules: Sequence[Rule], known: Sequence[KnownAlert], now: datetime
) -> AlertChanges:
    """Begin an alert once its complaint has lasted for the rule's `hold`; end it when the complaint is gone."""
    present = _covered(complaints, rules)
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


def _covered(complaints: Sequence[Complaint], rules: Sequence[Rule]) -> Mapping[str, tuple[Rule, Complaint]]:
    """Return each pair of a rule and a complaint that it covers, by the key of their alert."""
    pairs = [(rule, complaint) for rule in rules for complaint in complaints if rule.covers(complaint)]
    return {_key(rule, complaint): (rule, complaint) for rule, complaint in pairs}


def _is_due(alert: KnownAlert, holds: Mapping[str, timedelta], now: datetime) -> bool:
    return not alert.is_fired and now - alert.since >= holds[alert.rule]


def _firing(alert: KnownAlert, complaint: Complaint) -> Notice:
    """Return the notice of an alert that begins, with the complaint's present message."""
    return Notice(state="firing", known=replace(alert, message=complaint.message))


def _keys(alerts: Sequence[KnownAlert]) -> frozenset[str]:
    return frozenset(alert.key for alert in alerts)


def _new(key: str, rule: Rule, complaint: Complaint, now: datetime) -> KnownAlert:
    return KnownAlert(
        key=key,
        rule=rule.id,
        alert=complaint.alert,
        subject=complaint.subject,
        message=complaint.message,
        since=min(complaint.since or now, now),
        is_fired=False,
    )


def _key(rule: Rule, complaint: Complaint) -> str:
    text = json.dumps([rule.id, complaint.alert, dict(complaint.subject)], sort_keys=True)
    return sha256(text.encode()).hexdigest()


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
