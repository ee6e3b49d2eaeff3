"""The `settings` alone, for whoever asks a daemon, which has judged the rest: without the models of assets and jobs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from config.document import folder_of
from config.errors import refusing_faults
from config.names import Scope
from config.report import Report
from config.settings import Settings


def load_settings(path: Path, environ: Mapping[str, str]) -> Settings:
    """Those in the file or folder `path`, whatever is wrong with its other sections.

    Raises `ConfigurationInvalid`. Reads files: not for the event loop.
    """
    with refusing_faults(path):
        report = Report.of(path, environ, section="settings")
        given, settings = report.document.data["settings"], None
        if given is None or report.is_mapping(given, ("settings",)):
            settings = report.validate(Settings, given or {}, ("settings",), Scope(folder=folder_of(path)))
        report.refuse_problems()
        assert settings is not None  # noqa: S101  else there is a problem
        return settings
