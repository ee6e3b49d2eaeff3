"""Sends alerts to a web address or by mail. Several lanes are served at a time, so a target that is down delays no other."""

from __future__ import annotations

import json
import smtplib
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from email.message import EmailMessage
from functools import partial
from typing import Any, Final, Self
from urllib.parse import urlsplit

import anyio
import httpx
import structlog
from anyio.to_thread import run_sync

from config.features.alerts.settings import AlertConfig, AlertTarget, SmtpConfig, WebhookConfig
from store.features.outbox.outbox import OutboxMessage
from watcher.features.alerts.changes import targets
from watcher.features.alerts.evaluator import DESTINATION
from watcher.features.outbox.delivery import Delivered, DeliveryRefused, Failed, Outcome, Unclear
from watcher.host.metrics import Metrics
from watcher.host.templates import TemplateFailed, render

GIVEN_UP_AFTER: Final = timedelta(days=1)
"""The age at which an alert that could not be sent is dropped: it is of no use any more."""
_AGAIN: Final = frozenset({408, 425, 429})
"""Statuses of refusals that a later attempt may get past."""
_REFUSED: Final = 400
_BROKEN: Final = 500

log = structlog.get_logger()


@dataclass(kw_only=True, eq=False)
class Alerts:
    """The outbox's destination for alerts. `targets` are keyed by the id of their rule."""

    targets: Mapping[str, AlertTarget]
    metrics: Metrics = field(default_factory=Metrics)
    name: str = DESTINATION
    timeout: timedelta = timedelta(seconds=30)

    @classmethod
    def of(cls, entries: Sequence[AlertConfig], metrics: Metrics) -> Self:
        """Return the destination of `settings.alerts`."""
        return cls(targets=targets(entries), metrics=metrics)

    async def deliver(self, message: OutboxMessage) -> Outcome:
        """Send the alert, or drop it: when its target is no longer configured, or when it could not be sent for a day."""
        target = self.targets.get(message.lane.partition("/")[0])
        first = message.first_attempt_at
        if target is None or (first is not None and message.now - first > GIVEN_UP_AFTER):
            log.error("alert.dropped", body=message.body)
            self.metrics.alerts.labels("dropped").inc()
            return Delivered()
        body = json.loads(message.body)
        if target.webhook is not None:
            outcome = await _post(target.webhook, body, self.timeout)
        else:
            outcome = await run_sync(partial(_mail, target.smtp, body, self.timeout.total_seconds() / 2))
        self.metrics.alerts.labels("sent" if isinstance(outcome, Delivered) else "failed").inc()
        return outcome

    async def look_up(self, message: OutboxMessage) -> Outcome | None:  # noqa: ARG002
        """Return None: no target can be asked. The alert is sent again, and its id shows that it is the same."""
        return None


async def _post(target: WebhookConfig, body: Mapping[str, Any], within: timedelta) -> Outcome:
    """Post the alert. The status decides, whatever body follows. `within` limits the whole exchange, however slow it is."""
    text = json.dumps(body)
    if target.template is not None:
        try:
            text = await run_sync(render, target.template, body)
            json.loads(text)
        except (TemplateFailed, ValueError) as error:
            return DeliveryRefused(reason=f"the webhook's template gives no JSON ({error}); correct it")
    headers = {name: value.get_secret_value() for name, value in target.headers.items()}
    headers = {"Content-Type": "application/json", **headers}
    try:
        with anyio.fail_after(within.total_seconds()):
            async with (
                httpx.AsyncClient(timeout=within.total_seconds() / 2) as client,
                client.stream("POST", target.url.get_secret_value(), content=text, headers=headers) as answer,
            ):
                return _judged(answer)
    except (httpx.LocalProtocolError, UnicodeError):
        return DeliveryRefused(reason="the webhook's url or headers hold what HTTP cannot send; correct them")
    except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.UnsupportedProtocol) as error:
        why = str(error) if isinstance(error, httpx.ConnectError) else ""
        return Failed(reason=f"the webhook at {_host(target)} cannot be reached" + (f" ({why})" if why else ""))
    except (TimeoutError, httpx.TimeoutException):
        return Unclear(reason=f"the webhook at {_host(target)} did not answer in time")
    except (httpx.HTTPError, httpx.InvalidURL):
        return Unclear(reason=f"the webhook at {_host(target)} gave no whole answer")


def _host(target: WebhookConfig) -> str:
    """Return the host of the webhook. The rest of its address may be a secret."""
    return urlsplit(target.url.get_secret_value()).hostname or "its address"


def _judged(answer: httpx.Response) -> Outcome:
    if answer.is_success:
        return Delivered()
    reason = f"the webhook at {answer.url.host} answers {answer.status_code}"
    if _REFUSED <= answer.status_code < _BROKEN and answer.status_code not in _AGAIN:
        return DeliveryRefused(reason=f"{reason}; correct its url, headers or template")
    return Failed(reason=reason)


def _mail(target: SmtpConfig | None, body: Mapping[str, Any], seconds: float) -> Outcome:
    """Send the alert by mail. Blocks the calling thread."""
    assert target is not None  # noqa: S101  one of the two is there
    try:
        with smtplib.SMTP(target.host, target.port, timeout=seconds) as server:
            if target.starttls:
                server.starttls(context=ssl.create_default_context())
            server.send_message(mail(target, body))
    except (smtplib.SMTPRecipientsRefused, smtplib.SMTPSenderRefused, smtplib.SMTPNotSupportedError) as error:
        return DeliveryRefused(reason=f"the mail server refuses ({type(error).__name__}); correct from, to or starttls")
    except UnicodeError:
        return DeliveryRefused(reason="the mail server's name is none; correct host")
    except (smtplib.SMTPException, OSError) as error:
        return Failed(reason=f"the mail server does not take it ({type(error).__name__})")
    return Delivered()


def mail(target: SmtpConfig, body: Mapping[str, Any]) -> EmailMessage:
    """Return the mail of an alert. Retries have the same Message-ID."""
    message = EmailMessage()
    message["From"], message["To"] = target.sender, ", ".join(target.to)
    message["Subject"] = " ".join(f"[{body['state']}] {body['message']}".split())[:200]
    message["Message-ID"] = f"<{body['id']}@asset-watcher>"
    message.set_content(f"{body['message']}\n\nSince {body['since']}. {body['url']}\n\n{json.dumps(body, indent=2)}\n")
    return message
