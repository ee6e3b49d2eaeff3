"""Dotted paths in plug-ins, YAML, image and documentation can be imported. All names of an object give the same object."""

from __future__ import annotations

import importlib

import pytest

PUBLIC = {
    "asset_job": ["AssetJobError", "NEVER_EXPIRE", "Run", "run"],
    "asset_job.backends": ["AssetScope", "BaseStateBackend", "TaskScope"],
    "asset_job.storage": ["ObjectStorageStateBackend"],
    "config.errors": ["ConfigurationInvalid", "Problem", "UnknownClass"],
    "triggers.base": [
        "BaseConnection",
        "BaseEventTrigger",
        "BaseOptions",
        "Finding",
        "Position",
        "StoredPosition",
        "TriggerBatch",
        "TriggerEvent",
    ],
    "triggers.changes.trigger": ["PostgresChanges"],
    "triggers.errors": ["ConfigurationError", "SourceChanged", "SourceUnavailable"],
    "triggers.iceberg": ["IcebergConnection"],
    "triggers.local_folder.new_files": ["FileNewFiles"],
    "triggers.options": ["Duration"],
    "triggers.postgres.connection": ["PostgresConnection"],
    "triggers.postgres.new_rows": ["NewRows"],
    "triggers.s3.connection": ["S3Connection"],
    "triggers.s3.new_files": ["S3NewFiles"],
    "watcher.guard": ["main"],
    "watcher.probe": ["main"],
    "watcher.submit.base": [
        "Addresses",
        "Needs",
        "SparkApplication",
        "Submission",
        "SubmitError",
        "Submitter",
        "Workspace",
    ],
    "watcher.submit.spark_submit": ["SparkSubmit"],
}


@pytest.mark.parametrize(("module", "names"), PUBLIC.items())
def test_a_public_name_can_be_imported(module: str, names: list[str]) -> None:
    loaded = importlib.import_module(module)
    assert [name for name in names if not hasattr(loaded, name)] == []
