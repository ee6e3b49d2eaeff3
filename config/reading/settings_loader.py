"""Reads the `settings` alone, for commands that ask a running daemon, which has checked the rest.

It is a module of its own because it does not import the models of assets and jobs, which takes as long again.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from config.errors import refusing_faults
from config.models.settings import Settings, SettingsOf
from config.names import Scope
from config.reading.report import Report
from config.reading.sources import folder_of


def load_settings(path: Path, environ: Mapping[str, str], settings_of: SettingsOf) -> Settings:
    """Read the settings in the file or folder `path`. Problems in other sections are ignored.

    Raises `ConfigurationInvalid`. It reads files, so it must not be called in the event loop.
    """
    with refusing_faults(path):
        report = Report.of(path, environ, section="settings")
        given, settings = report.document.data["settings"], None
        if given is None or report.is_mapping(given, ("settings",)):
            settings = report.validate_settings(settings_of, given or {}, Scope(folder=folder_of(path)))
        report.refuse_problems()
        assert settings is not None  # noqa: S101  it had no problem
        return settings
