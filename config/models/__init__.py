"""The models of a configuration. Field docstrings become docs/configuration.md and the descriptions of the JSON Schema.

The names below are imported when they are first used: a command that needs only `config.models.settings` does not import
the models of assets and jobs, which takes as long again.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from config.models.assets import AliasConfig, AssetConfig, WatcherConfig
    from config.models.configuration import Configuration
    from config.models.ingest import INGEST, IngestConfig
    from config.models.jobs import BatchConfig, JobConfig
    from config.models.settings import Settings
    from config.models.spark import SparkConfig, SparkParameters

__all__ = [
    "INGEST",
    "AliasConfig",
    "AssetConfig",
    "BatchConfig",
    "Configuration",
    "IngestConfig",
    "JobConfig",
    "Settings",
    "SparkConfig",
    "SparkParameters",
    "WatcherConfig",
]

_MODULES: Final = {
    "INGEST": "ingest",
    "AliasConfig": "assets",
    "AssetConfig": "assets",
    "BatchConfig": "jobs",
    "Configuration": "configuration",
    "IngestConfig": "ingest",
    "JobConfig": "jobs",
    "Settings": "settings",
    "SparkConfig": "spark",
    "SparkParameters": "spark",
    "WatcherConfig": "assets",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
