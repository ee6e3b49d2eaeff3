"""Alerts: what is wrong now is compared with what was reported; each change is sent once, through the outbox."""

from watcher.outbound.alerts.delivery import Alerts
from watcher.outbound.alerts.evaluator import Evaluator

__all__ = ["Alerts", "Evaluator"]
