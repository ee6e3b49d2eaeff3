"""`settings.alerts`: rules that are accepted, and the sentences for those that are refused."""

from __future__ import annotations

from datetime import timedelta

import pytest

from config.features.alerts.settings import AlertsPart
from tests.unit.config.conftest import Load, Problems

pytestmark = pytest.mark.feature("alerts")

MAIL = "{smtp: {host: mail, from: w@example.com, to: [o@example.com]}}"


def test_a_rule_needs_only_kinds_and_a_target(load_text: Load) -> None:
    [rule] = load_text(f"settings: {{alerts: [{{on: [run_failed], to: {MAIL}}}]}}").settings.part(AlertsPart).alerts
    assert (rule.on, rule.hold, rule.assets, rule.jobs) == (("run_failed",), timedelta(0), ("*",), ("*",))
    assert rule.to.smtp is not None
    assert (rule.to.smtp.port, rule.to.smtp.sender, rule.to.smtp.starttls) == (587, "w@example.com", True)


def test_addresses_and_headers_are_secrets(load_text: Load) -> None:
    hook = "{webhook: {url: 'https://chat/${TOKEN}', headers: {A: '${TOKEN}'}, template: '{\"text\": {{ message | tojson }}}'}}"
    [rule] = (
        load_text(f"settings: {{alerts: [{{on: [run_failed], for: 5m, to: {hook}}}]}}", TOKEN="hunter22")
        .settings.part(AlertsPart)
        .alerts
    )
    assert "hunter22" not in repr(rule)
    assert rule.to.webhook is not None
    assert rule.to.webhook.url.get_secret_value() == "https://chat/hunter22"
    assert rule.hold == timedelta(minutes=5)


@pytest.mark.parametrize(
    ("rule", "sentence"),
    [
        (
            f"on: [run_fails], to: {MAIL}",
            "on[0]: must be `watcher_failing`, `watcher_late`, `run_failed`, `running_too_long`, `waiting_too_long`",
        ),
        (f"on: [], to: {MAIL}", "on: must name at least one kind of alert"),
        ("on: [run_failed], to: {}", "to: must have exactly one of `webhook` and `smtp`"),
        ("on: [run_failed], to: {webhook: {url: chat}}", "to.webhook.url: must begin with `http://` or `https://`"),
        (
            "on: [run_failed], to: {webhook: {url: 'http://c', template: '{{ mesage }}'}}",
            "to.webhook.template: uses `mesage`, which templates here do not have; did you mean `message`?",
        ),
        (
            "on: [run_failed], to: {smtp: {host: m, from: me, to: [o@x]}}",
            "to.smtp.from: must be an address such as `ops@example.com`",
        ),
    ],
)
def test_a_mistake_in_a_rule_is_reported_with_its_place(problems: Problems, rule: str, sentence: str) -> None:
    [problem] = problems(f"settings:\n  alerts:\n    - {{{rule}}}")
    assert f"settings.alerts[0].{sentence}" in problem
