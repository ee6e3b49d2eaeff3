"""Options of `postgres.changes`, which `postgres.new_rows` has with `mode: log`."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, Final, Literal

from pydantic import ConfigDict, Field, model_validator

from triggers.explanations import Explanation, as_json, cannot_tell
from triggers.hosting import RewindPlace
from triggers.options import Bytes, Facts
from triggers.postgres.table_options import KeysOfOthers, TableOptions, schema_of_others, without_keys_of_others

_OF_ROWS: Final[KeysOfOthers] = {
    "column": ("id",),
    "where": (None,),
    "unsafe_ids": (False, "false"),
    "unsafe_where": (False, "false"),
    "gap_alarm": ({}, {"count": 1000}, {"age": "10m"}, {"count": 1000, "age": "10m"}),
    "on_bad_row": ("stop",),
    "soft_delete": (None,),
    "time_zone": (None,),
    "lateness": (None,),
    "witness": None,
}
_REMEMBERS_NONE: Final = (
    "mode: log reads changes and remembers no rows; only the events with changes of this key are known"
)


class ChangesOptions(TableOptions):
    model_config = ConfigDict(json_schema_extra=schema_of_others(_OF_ROWS))

    mode: Literal["log"] = "log"
    start: Literal["now"] = "now"
    publication: Annotated[str, Field(min_length=1, max_length=63)] | None = None
    max_retained: Annotated[Bytes, Field(ge=1_000_000)] = 10_000_000_000

    @model_validator(mode="before")
    @classmethod
    def _reports_every_change_from_now_on(cls, data: Any) -> Any:
        """Refuse what needs rows, in words of the spelling that is written."""
        is_mode = isinstance(data, dict) and "mode" in data
        name, other = ("mode: log", "mode: id") if is_mode else ("postgres.changes", "postgres.new_rows")
        known = without_keys_of_others(data, _OF_ROWS, f"{name} reports every change of the table: remove {{}}")
        if isinstance(known, dict) and known.get("start", "now") != "now":
            raise ValueError(f"start: {name} begins now; for rows that are there already, use {other} beside it")
        return known

    def facts(self) -> Facts:
        return replace(super().facts(), has_slot=True)

    @property
    def writes(self) -> str:
        return "INSERT OR UPDATE OR DELETE OR TRUNCATE"

    @property
    def publication_name(self) -> str:
        """The publication; without the option its name follows from the table's."""
        return self.publication or f"asset_watcher_{hashlib.sha256(self.table.encode()).hexdigest()[:12]}"

    def rewind_places(self) -> Sequence[RewindPlace]:
        """The log knows one place."""
        return (RewindPlace(kind="now", about="the changes that the slot keeps by now are passed over, for good"),)

    def name_item(self, item: str) -> Explanation:
        value = as_json(item)
        name = [*value.values()] if isinstance(value, dict) else value
        return replace(cannot_tell(item), name=name, sentence=_REMEMBERS_NONE)
