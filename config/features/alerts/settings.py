"""The `settings.alerts` section: which alerts are sent where."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated, Final, Literal, Self, TypeAlias

from pydantic import AfterValidator, Field, SecretStr, model_validator

from config.models.settings import SettingsPart
from config.models.values import Duration
from config.section import Section

TEMPLATE_NAMES: Final = ("id", "alert", "state", "since", "subject", "message", "url")
"""The names that a webhook's template may use: the members of an alert's body."""
AlertKind: TypeAlias = Literal[
    "watcher_failing", "watcher_late", "run_failed", "running_too_long", "waiting_too_long", "late", "bad_records"
]


def _check_url(url: SecretStr) -> SecretStr:
    if not url.get_secret_value().startswith(("http://", "https://")):
        raise ValueError("must begin with `http://` or `https://`")
    return url


def _check_template(template: str) -> str:
    from config.models.templates import template_fault  # noqa: PLC0415  slow, and few webhooks need it

    if fault := template_fault(template, TEMPLATE_NAMES):
        raise ValueError(fault)
    return template


def _check_mailbox(mailbox: str) -> str:
    if not re.fullmatch(r"[^@\s<>,;]+@[^@\s<>,;]+", mailbox):
        raise ValueError("must be an address such as `ops@example.com`")
    return mailbox


def _check_kinds(kinds: tuple[AlertKind, ...]) -> tuple[AlertKind, ...]:
    if not kinds:
        raise ValueError("must name at least one kind of alert")
    return kinds


Mailbox: TypeAlias = Annotated[str, AfterValidator(_check_mailbox)]


class WebhookConfig(Section):
    url: Annotated[SecretStr, AfterValidator(_check_url)]
    """Address that gets a POST with each alert as JSON."""
    headers: dict[str, SecretStr] = Field(default_factory=dict)
    """Headers of the request."""
    template: Annotated[str, AfterValidator(_check_template)] | None = None
    """Jinja2 template that makes another JSON text from the alert; null sends the alert as it is."""


class SmtpConfig(Section):
    host: Annotated[str, Field(min_length=1)]
    """Name of the mail server."""
    port: Annotated[int, Field(ge=1, le=65535)] = 587
    """Port of the mail server."""
    sender: Annotated[Mailbox, Field(alias="from")]
    """Address of the sender."""
    to: Annotated[tuple[Mailbox, ...], Field(min_length=1)]
    """Addresses of the recipients."""
    starttls: bool = True
    """Require TLS with a valid certificate."""


class AlertTarget(Section):
    webhook: WebhookConfig | None = None
    """A web address that gets the alerts. Exactly one of `webhook` and `smtp` must be set."""
    smtp: SmtpConfig | None = None
    """A mail server that the alerts are sent through."""

    @model_validator(mode="after")
    def _check_target(self) -> Self:
        if (self.webhook is None) == (self.smtp is None):
            raise ValueError("must have exactly one of `webhook` and `smtp`")
        return self


class AlertConfig(Section):
    on: Annotated[tuple[AlertKind, ...], AfterValidator(_check_kinds)]
    """Kinds of alert: `watcher_failing`, `watcher_late` (an asset's `expect_every`), `run_failed` (after the last retry),
    `running_too_long` (a job's `expect_within`), `waiting_too_long` (a job's `deadline`), `late` (`by` of a job's `deadline`, `expect_by` of an asset), `bad_records` (a run has left records out of its table)."""
    hold: Annotated[Duration, Field(alias="for")] = timedelta(0)
    """How long the condition must last before the alert is sent."""
    assets: tuple[str, ...] = ("*",)
    """Patterns of asset names: the asset of the watcher, or any that the job reads or writes."""
    jobs: tuple[str, ...] = ("*",)
    """Patterns of job names."""
    to: AlertTarget
    """Where the alerts are sent."""


class AlertsPart(SettingsPart):
    alerts: tuple[AlertConfig, ...] = ()
    """Which alerts are sent where, each once per change; see docs/alerts.md."""
