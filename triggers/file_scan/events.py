"""The events that name files: for each partition key, of a bounded size, and apart for what is emitted last."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence

from triggers.base import TriggerEvent
from triggers.event_assets import EventTarget, divided
from triggers.file_scan.manifests import size_of, vouching
from triggers.file_scan.options import FileOptions
from triggers.file_scan.partitions import FolderKeys
from triggers.file_scan.scanner import Step
from triggers.file_scan.versions import FileVersion


class FileEvents:
    """Makes the events of a watcher of files."""

    def __init__(self, options: FileOptions, keys: FolderKeys, is_last: Callable[[FileVersion], bool] | None) -> None:
        """`is_last` says which versions are emitted last; None: there are none."""
        self._options = options
        self._keys = keys
        self._is_last = is_last

    def of(self, step: Step) -> Iterator[TriggerEvent]:
        """Yield the events of the versions of a step that an event can name."""
        named = [version for version in step.versions if version.fault is None]
        last = [] if self._is_last is None else [version for version in named if self._is_last(version)]
        if not last:
            yield from self._of(step, named, is_last=False)
            return
        names = {version.fingerprint for version in last}
        yield from self._of(step, [each for each in named if each.fingerprint not in names], is_last=False)
        yield from self._of(step, last, is_last=True)

    def _of(self, step: Step, named: Sequence[FileVersion], *, is_last: bool) -> Iterator[TriggerEvent]:
        options, batch = self._options, self._options.batch
        placed = ((self._target_of(options.name_below(each.key)), each) for each in named)
        for target, versions in divided(
            placed, options.further_assets, self._keys.items, lambda version: options.name_below(version.key)
        ):
            described = [version.describe() for version in versions]
            sizes = [len(json.dumps(file)) + 2 for file in described]
            if is_last:
                sizes = [size + size_of(version) for size, version in zip(sizes, versions, strict=True)]
            for part in batch.parts(sizes, batch.max_files):
                yield TriggerEvent(
                    count=len(described[part]),
                    watermark=step.watermark,
                    payload={"files": described[part], **(vouching(versions[part]) if is_last else {})},
                    partition_key=target.key,
                    asset=target.asset,
                )

    def _target_of(self, name: str) -> EventTarget:
        return EventTarget(self._options.asset_of(name), self._keys.key_of(name))
