"""The section `settings.heartbeat`."""

from __future__ import annotations

from datetime import timedelta

from config.models.settings import Settings, SettingsPart
from config.models.values import Address, PositiveDuration
from config.section import Section


class HeartbeatSettings(Section):
    url: Address
    """The address of the switch, which gets a POST for each heartbeat."""
    every: PositiveDuration = timedelta(minutes=1)
    """Time between two heartbeats."""


class HeartbeatPart(SettingsPart):
    heartbeat: HeartbeatSettings | None = None
    """A dead man's switch that notices when no daemon leads."""

    @classmethod
    def is_configured(cls, settings: Settings) -> bool:
        return settings.part(cls).heartbeat is not None
