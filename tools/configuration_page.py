#!/usr/bin/env python3
"""Write the tables of keys in docs/configuration.md from the models of the daemon and of its features."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from config.features.kubernetes.settings import DriverPod
from config.publishing.reference import OF_THE_KERNEL, rewrite
from config.section import Section
from watcher.installed import known_settings

PAGE: Final = Path(__file__).resolve().parents[1] / "docs/configuration.md"
MODELS: Final[Mapping[str, type[Section]]] = {
    "settings": known_settings(()).model,
    **OF_THE_KERNEL,
    "jobs.NAME.spark.kubernetes": DriverPod,
}


def main() -> None:
    PAGE.write_text(rewrite(PAGE.read_text(encoding="utf-8"), MODELS), encoding="utf-8")


if __name__ == "__main__":
    main()
