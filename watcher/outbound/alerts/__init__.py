"""Alerts: what holds now is compared with what was told, and each change is sent once, through the outbox."""

from watcher.outbound.alerts.delivery import Alerts
from watcher.outbound.alerts.evaluator import Evaluator

__all__ = ["Alerts", "Evaluator"]
