"""What is generated from the models for readers of the YAML: the JSON Schema and the tables of docs/configuration.md."""

from __future__ import annotations

from pathlib import Path
from typing import Final

WRITTEN_SCHEMA: Final = Path(__file__).with_name("watchers.schema.json")
"""The JSON Schema with the triggers, connections and submitters of this program, which `watcher schema` prints.

It is kept as a file because making it needs all of their options, which takes a second.
"""
