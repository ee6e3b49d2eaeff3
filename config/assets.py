"""The `assets` section with its watchers, whose options are checked by their triggers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from pydantic import BaseModel

from config.document import KeyPath
from config.errors import UnknownClass
from config.models import AssetConfig, WatcherConfig
from config.names import Scope, did_you_mean
from config.report import Report
from config.uris import normalise
from config.vocabulary import TriggerKind, Vocabulary


class AssetReader:
    """Reads one asset after the other; URIs and watcher names are unique over all of them."""

    def __init__(self, report: Report, vocabulary: Vocabulary, scope: Scope, connections: Mapping[str, Any]) -> None:
        """`connections` as written: one that is wrong in itself can still be referred to."""
        self._report = report
        self._vocabulary = vocabulary
        self._scope = scope
        self._connections = connections
        self._uris: dict[str, KeyPath] = {}
        self._watchers: dict[str, KeyPath] = {}

    def read(self, name: str, entry: Any, path: KeyPath) -> AssetConfig | None:
        """The asset `name`; None or an asset without some of its watchers when there are problems."""
        content = {} if entry is None else entry
        if not self._report.is_mapping(content, path):
            return None
        content = {
            "uri": quote(name),
            **content,
        }  # the same for a name that is one; no second problem for one that is not
        watchers = content.pop("watchers", None)
        watchers = {} if watchers is None else watchers
        implied = self._uri(content["uri"], (*path, "uri"))
        if not self._report.is_mapping(watchers, (*path, "watchers")):
            return None
        content["watchers"] = {
            watcher: config
            for watcher, options in watchers.items()
            if (config := self._watcher(watcher, name, options, (*path, "watchers", watcher), implied))
        }
        return self._report.validate(AssetConfig, content, path)

    def _uri(self, written: Any, path: KeyPath) -> str | None:
        """The normalised URI for `TriggerKind.defaults`, None of a bad one.

        It keeps the slash at its end, unless it names a table: the prefix `orders/` is not the prefix `orders`.
        """
        try:
            uri = normalise(written)
        except (TypeError, ValueError):
            return None  # the asset's model says so
        if first := self._uris.get(uri):
            self._report.add(path, f"is the URI of another asset at {self._report.place(first)}; name that one instead")
        self._uris.setdefault(uri, path)
        dropped = written.endswith("/") and not uri.endswith("/") and not uri.startswith("postgres:")
        return f"{uri}/" if dropped else uri

    def _watcher(self, name: str, asset: str, entry: Any, path: KeyPath, uri: str | None) -> WatcherConfig | None:
        self._report.check_name(name, path)
        if first := self._watchers.get(name):
            self._report.add(path, f"is the name of another watcher at {self._report.place(first)}; rename one of them")
        self._watchers.setdefault(name, path)
        if not self._report.is_mapping(entry, path):
            return None
        options = dict(entry)
        trigger, connection = options.pop("trigger", None), options.pop("connection", None)
        kind = self._kind(trigger, (*path, "trigger"))
        if kind is None:
            return None
        fault = self._connection_fault(connection, kind.connection_type)
        if fault:
            self._report.add((*path, "connection"), fault)
        validated = self._options(kind, options, path, uri)
        if fault or validated is None:
            return None
        return WatcherConfig(name=name, asset=asset, trigger=trigger, connection=connection, options=validated)

    def _kind(self, trigger: Any, path: KeyPath) -> TriggerKind | None:
        if not isinstance(trigger, str):
            known = did_you_mean("", self._vocabulary.triggers)
            self._report.add(path, f"must name a trigger, or the dotted path of a class of yours; {known}")
            return None
        try:
            return self._vocabulary.trigger(trigger)
        except UnknownClass as error:
            self._report.add_unknown(path, trigger, error)
            return None

    def _connection_fault(self, connection: Any, needed: str | None) -> str | None:
        if needed is None:
            return None if connection is None else "is of no use to this trigger; remove it"
        fitting = [name for name, entry in self._connections.items() if _type(entry) == needed]
        remedy = did_you_mean(str(connection), fitting) if fitting else f"add one of `type: {needed}` to `connections`"
        if connection is None:
            return f"is missing: this trigger needs a connection of type `{needed}`; {remedy}"
        if not isinstance(connection, str):
            return f"must be the name of a connection; {remedy}"
        if fault := self._scope.check_connection(connection):
            return fault
        if connection in fitting:
            return None
        return f"`{connection}` is not of type `{needed}`, which this trigger needs; {remedy}"

    def _options(self, kind: TriggerKind, options: dict[str, Any], path: KeyPath, uri: str | None) -> BaseModel | None:
        """Without a good URI nobody knows what it would have implied, so nothing is said to be missing."""
        try:
            implied = {} if uri is None else kind.defaults(uri)
        except ValueError as error:
            self._report.add(path, str(error))
            return None
        except Exception as error:  # noqa: BLE001  a plug-in's own code may raise anything
            self._report.add(path, f"the trigger's `defaults` raised {type(error).__name__}; mend the class")
            return None
        given = {**implied, **options}
        return self._report.validate(kind.options, given, path, self._scope, complete=uri is not None)


def _type(connection: Any) -> Any:
    return connection.get("type") if isinstance(connection, dict) else None
