"""The `settings.alerts` section: who is told of what. Field docstrings become docs/configuration.md."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated, Final, Literal, Self, TypeAlias

from pydantic import AfterValidator, Field, SecretStr, model_validator

from config.durations import Duration
from config.section import Section

TEMPLATE_NAMES: Final = ("id", "alert", "state", "since", "subject", "message", "url")
"""What a webhook's template may use: the members of an alert's body."""
AlertKind: TypeAlias = Literal["watcher_failing", "watcher_late", "run_failed", "waiting_too_long"]


def _check_url(url: SecretStr) -> SecretStr:
    if not url.get_secret_value().startswith(("http://", "https://")):
        raise ValueError("must begin with `http://` or `https://`")
    return url


def _check_template(template: str) -> str:
    from config.templates import template_fault  # noqa: PLC0415  most have none, and it takes long

    if fault := template_fault(template, TEMPLATE_NAMES):
        raise ValueError(fault)
    return template


def _check_mailbox(mailbox: str) -> str:
    if not re.fullmatch(r"[^@\s<>,;]+@[^@\s<>,;]+", mailbox):
        raise ValueError("must be an address such as `ops@example.com`")
    return mailbox


def _check_some(kinds: tuple[AlertKind, ...]) -> tuple[AlertKind, ...]:
    if not kinds:
        raise ValueError("must name what is told")
    return kinds


Mailbox: TypeAlias = Annotated[str, AfterValidator(_check_mailbox)]


class WebhookConfig(Section):
    url: Annotated[SecretStr, AfterValidator(_check_url)]
    """Gets a POST with the alert as JSON."""
    headers: dict[str, SecretStr] = Field(default_factory=dict)
    """Headers of the request."""
    template: Annotated[str, AfterValidator(_check_template)] | None = None
    """Jinja2 that makes another JSON text of the alert; null sends the alert as it is."""


class SmtpConfig(Section):
    host: Annotated[str, Field(min_length=1)]
    """The mail server."""
    port: Annotated[int, Field(ge=1, le=65535)] = 587
    """Its port."""
    sender: Annotated[Mailbox, Field(alias="from")]
    """Who the mail is from."""
    to: Annotated[tuple[Mailbox, ...], Field(min_length=1)]
    """Who gets it."""
    starttls: bool = True
    """Insist on TLS, with a certificate that is right."""


class AlertTarget(Section):
    webhook: WebhookConfig | None = None
    """A web address, or"""
    smtp: SmtpConfig | None = None
    """a mail server."""

    @model_validator(mode="after")
    def _check_one(self) -> Self:
        if (self.webhook is None) == (self.smtp is None):
            raise ValueError("must be one of `webhook` and `smtp`")
        return self


class AlertConfig(Section):
    on: Annotated[tuple[AlertKind, ...], AfterValidator(_check_some)]
    """What is told: `watcher_failing`, `watcher_late` (an asset's `expect_every`), `run_failed` (after the last retry),
    `waiting_too_long` (a job's `deadline`)."""
    hold: Annotated[Duration, Field(alias="for")] = timedelta(0)
    """How long it must have been so."""
    assets: tuple[str, ...] = ("*",)
    """Of which assets, by patterns: a watcher's own, or any around a job."""
    jobs: tuple[str, ...] = ("*",)
    """Of which jobs, by patterns."""
    to: AlertTarget
    """Where it goes."""
