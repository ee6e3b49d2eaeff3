"""New files of a folder on this machine."""

from watcher.feature import Feature

FEATURE = Feature(
    name="folder",
    needs=frozenset({"files"}),
    triggers={"file.new_files": "triggers.local_folder.new_files.FileNewFiles"},
)
