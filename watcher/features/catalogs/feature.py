"""Catalogs of Iceberg, which jobs write tables with."""

from watcher.feature import Feature

FEATURE = Feature(
    name="catalogs",
    connections={"iceberg": "triggers.iceberg.IcebergConnection"},
)
