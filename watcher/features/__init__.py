"""The features of this distribution, as data: each is a folder here with a `feature.py` that names what it brings.

The order is that of hooks which run one after another.
"""

from __future__ import annotations

from typing import Final

BUILT_IN: Final = (
    "rest",
    "commands",
    "isolation",
    "files",
    "s3",
    "folder",
    "rows",
    "changes",
    "spark_submit",
    "warm",
    "kubernetes",
    "catalogs",
    "readers",
    "tables",
    "ingest",
    "outbox",
    "airflow",
    "clean_source",
    "versions",
    "replay",
    "catchup",
    "partitions",
    "problems",
    "alerts",
    "explain",
    "reconcile",
    "pages",
    "publishing",
    "init",
    "demo",
)
"""The names of the features that come with the daemon."""
