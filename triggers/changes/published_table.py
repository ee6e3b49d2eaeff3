"""What publishes the changes of a table, and what people should know when that changed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Final

from triggers.base import Finding
from triggers.changes.checks import judge_publishing
from triggers.changes.options import ChangesOptions
from triggers.changes.statements import IDENTITIES, PUBLISHED
from triggers.postgres.server.session import Server
from triggers.postgres.table.examined_table import ExaminedTable

_OF_TABLE: Final = ("pubinsert", "pubupdate", "pubdelete", "pubtruncate", "pubviaroot", "filter", "columns")


class PublishedTable:
    """What publishes the changes of one watcher's table, as it was judged last."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        """What changed since the watcher started."""
        self.shape: Mapping[str, str] = {}
        """Hashes of what was judged last, by its name."""

    async def check(self, table: ExaminedTable[ChangesOptions]) -> list[Finding]:
        """Judge the table's server, publication and replica identities, and note what changed since the last time."""
        options, facts = table.options, table.facts
        name = options.source
        [published] = await table.fetch(PUBLISHED, options.publication_name, name.schema, name.name)
        identities = await table.fetch(IDENTITIES, facts.relations)
        types = [
            facts.columns.get(column) for column in (*facts.primary_key, *options.columns, *options.dividing_columns)
        ]
        before, self.shape = (
            self.shape,
            {
                "the publication": _hash([published[column] for column in _OF_TABLE]),
                "the replica identity": _hash([dict(row) for row in identities]),
                "a column's type": _hash(types),
            },
        )
        self.compare(table, before)
        return judge_publishing(facts, options, published, identities)

    def compare(self, table: ExaminedTable[ChangesOptions], before: Mapping[str, str]) -> None:
        """Note what differs from a shape that was known before."""
        name = table.options.table
        for what in (what for what, hash_ in self.shape.items() if before.get(what, hash_) != hash_):
            message = f"{what} of {name} changed: changes from then on are reported as it says now"
            self._note(
                Finding.warning("changed", message, f"compare what consumers of {name} expect with what it is now")
            )

    def compare_timeline(self, before: int, server: Server) -> None:
        """Note a failover, or a restore to a new timeline."""
        if server.has_left_timeline(before):
            message = f"the server's timeline changed from {before} to {server.timeline}: what was reported is recognized in the slot"
            self._note(Finding.warning("history", message, "nothing, unless the watcher is blocked"))

    def _note(self, finding: Finding) -> None:
        if finding not in self.findings:
            self.findings.append(finding)


def _hash(value: object) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:12]
