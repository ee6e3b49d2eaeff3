"""The events that name files: for each partition key, of a bounded size, and apart for what is emitted last."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence

from triggers.base import Finding, TriggerEvent
from triggers.event_assets import OWN, EventTarget, divided
from triggers.file_scan.manifests import size_of, vouching
from triggers.file_scan.options import FileOptions
from triggers.file_scan.partitions import FolderKeys
from triggers.file_scan.scanner import Step
from triggers.file_scan.versions import FileVersion


class FileEvents:
    """Makes the events of a watcher of files."""

    def __init__(self, options: FileOptions) -> None:
        self._options = options
        self._keys = None if options.partition is None else FolderKeys(options.partition)
        self._is_divided = options.partition is not None or options.assets is not None

    @property
    def findings(self) -> Sequence[Finding]:
        """A warning if some files had no partition key."""
        return () if self._keys is None else self._keys.items.findings

    def of(self, step: Step) -> Iterator[TriggerEvent]:
        """Yield the events of the versions of a step that an event can name."""
        named = [version for version in step.versions if version.fault is None]
        last = [] if self._options.last is None else [each for each in named if self._options.tells_last(each.key)]
        if last:
            names = {version.fingerprint for version in last}
            named = [version for version in named if version.fingerprint not in names]
        if named:
            yield from self._of(step, named, is_last=False)
        if last:
            yield from self._of(step, last, is_last=True)

    def _of(self, step: Step, named: Sequence[FileVersion], *, is_last: bool) -> Iterator[TriggerEvent]:
        batch = self._options.batch
        for target, versions in self._divided(named) if self._is_divided else [(OWN, named)]:
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

    def _divided(self, versions: Sequence[FileVersion]) -> Iterable[tuple[EventTarget, Sequence[FileVersion]]]:
        options, keys = self._options, self._keys
        names = [self._name_of(version) for version in versions]
        assets = [None] * len(names) if options.assets is None else map(options.asset_of, names)
        of_keys = [None] * len(names) if keys is None else map(keys.key_of, names)
        targets = map(EventTarget, assets, of_keys)
        items = None if keys is None else keys.items
        return divided(zip(targets, versions, strict=True), options.further_assets, items, self._name_of)

    def _name_of(self, version: FileVersion) -> str:
        return self._options.name_below(version.key)
