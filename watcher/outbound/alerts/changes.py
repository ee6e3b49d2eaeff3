"""Which alerts begin and end: pure. What holds now and what is known in, what to keep, tell and forget out."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from hashlib import sha256
from typing import Final, Literal

from config.alerts import AlertConfig, AlertTarget
from store.processes.alerts import KnownAlert

_ALL: Final = ("*",)


@dataclass(frozen=True, kw_only=True)
class Complaint:
    """Something that holds now; `since` None: nobody knows for how long."""

    alert: str
    subject: Mapping[str, str]
    message: str
    assets: frozenset[str]
    """The watcher's own, or all around the job."""
    dag_id: str | None = None
    since: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class Rule:
    """An entry of `settings.alerts`; `id` is a hash of it, secrets left out, so that a changed one begins anew."""

    id: str
    on: frozenset[str]
    hold: timedelta
    assets: Sequence[str]
    jobs: Sequence[str]

    @classmethod
    def of(cls, number: int, config: AlertConfig) -> Rule:
        """The entry with this number."""
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
    """Of `settings.alerts`."""
    return [Rule.of(number, entry) for number, entry in enumerate(entries)]


def targets(entries: Sequence[AlertConfig]) -> Mapping[str, AlertTarget]:
    """Where each rule's alerts go, by its id."""
    return {rule.id: entry.to for rule, entry in zip(rules(entries), entries, strict=True)}


@dataclass(frozen=True, kw_only=True)
class Notice:
    """What is told of an alert."""

    state: Literal["firing", "resolved"]
    known: KnownAlert


@dataclass(frozen=True, kw_only=True)
class Changes:
    """What becomes of the alerts that are known; `fired` and `removed` are keys."""

    added: Sequence[KnownAlert]
    fired: frozenset[str]
    removed: frozenset[str]
    notices: Sequence[Notice]


def changes(
    complaints: Sequence[Complaint], rules: Sequence[Rule], known: Sequence[KnownAlert], now: datetime
) -> Changes:
    """An alert begins when its complaint has held for the rule's `hold`, and ends when it does not hold any more."""
    present = {
        _key(rule, complaint): (rule, complaint) for rule in rules for complaint in complaints if rule.covers(complaint)
    }
    before = {each.key: each for each in known}
    holds = {rule.id: rule.hold for rule in rules}
    after = {key: before.get(key) or _new(key, *pair, now) for key, pair in present.items()}
    due = [each for each in after.values() if not each.is_fired and now - each.since >= holds[each.rule]]
    over = [each for key, each in before.items() if key not in present]
    return Changes(
        added=[each for key, each in after.items() if key not in before],
        fired=frozenset(each.key for each in due),
        removed=frozenset(each.key for each in over),
        notices=[
            *(Notice(state="resolved", known=each) for each in over if each.is_fired and each.rule in holds),
            *(Notice(state="firing", known=replace(each, message=present[each.key][1].message)) for each in due),
        ],
    )


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
