"""Alerts: what holds now is compared with what was told, and each change is sent once, through the outbox."""

from watcher.alerts.delivery import Alerts
from watcher.alerts.evaluator import Evaluator

__all__ = ["Alerts", "Evaluator"]
