"""The outcomes of a run, and `values.json`, in which those of all ways are kept."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.corpus.model import Verdict

VALUES: Final = Path(__file__).with_name("values.json")


@dataclass(frozen=True)
class Cell:
    """A case, tried by one way."""

    source: str
    kind: str
    name: str
    way: str


@dataclass
class Results:
    """The outcome of each cell, and what was read in the cells that differ from the source."""

    outcomes: dict[Cell, Verdict] = field(default_factory=dict)
    differences: dict[Cell, str] = field(default_factory=dict)

    def add(self, source: str, way: str, verdicts: Iterable[tuple[str, str, Verdict, str]]) -> None:
        for kind, name, verdict, shown in verdicts:
            cell = Cell(source, kind, name, way)
            self.outcomes[cell] = verdict
            if verdict == "different":
                self.differences[cell] = shown

    @property
    def ways(self) -> list[str]:
        return list(dict.fromkeys(cell.way for cell in self.outcomes))

    def as_json(self) -> dict[str, Any]:
        """Source -> type -> the outcomes by way, counted, and the names of the cells that are not equal."""
        sources: dict[str, dict[str, dict[str, Any]]] = {}
        for cell, verdict in self.outcomes.items():
            kinds = sources.setdefault(cell.source, {})
            entry = kinds.setdefault(cell.kind, {"ways": {}, "exceptions": {}})
            counts = entry["ways"].setdefault(cell.way, Counter())
            counts[verdict] += 1
            if verdict != "equal":
                entry["exceptions"].setdefault(verdict, {}).setdefault(cell.name, []).append(cell.way)
        for kinds in sources.values():
            for entry in kinds.values():
                entry["ways"] = {way: dict(sorted(counts.items())) for way, counts in entry["ways"].items()}
                entry["exceptions"] = {
                    verdict: _by_ways(names, sorted(entry["ways"]))
                    for verdict, names in sorted(entry["exceptions"].items())
                }
        return sources


def _by_ways(names: Mapping[str, list[str]], every: list[str]) -> dict[str, list[str]]:
    """The ways, joined (`all` where every way of the type is meant) -> the names of the cells."""
    joined: dict[str, list[str]] = {}
    for name, ways in names.items():
        key = "all" if sorted(ways) == every else ", ".join(sorted(ways))
        joined.setdefault(key, []).append(name)
    return joined


def load() -> Results:
    """The kept outcomes. The cells that were equal have numbers for names, because only exceptions are kept by name."""
    results = Results()
    for source, kinds in json.loads(VALUES.read_text(encoding="utf-8")).items() if VALUES.exists() else ():
        for kind, entry in kinds.items():
            for way, counts in entry["ways"].items():
                for verdict, count in counts.items():
                    names = [
                        name
                        for ways, listed in entry["exceptions"].get(verdict, {}).items()
                        if ways == "all" or way in ways.split(", ")
                        for name in listed
                    ] or map(str, range(count))
                    results.outcomes.update({Cell(source, kind, name, way): verdict for name in names})
    return results


def merged(kept: Results, new: Results) -> Results:
    """The new outcomes, and those of ways that were not run."""
    ways = set(new.ways)
    others = {cell: verdict for cell, verdict in kept.outcomes.items() if cell.way not in ways}
    return Results({**others, **new.outcomes})


def save(results: Results) -> None:
    text = json.dumps(results.as_json(), indent=1, sort_keys=True, ensure_ascii=True)
    VALUES.write_text(text + "\n", encoding="utf-8")


def changes(kept: Results, new: Results, *, some: bool = False) -> list[str]:
    """The cells whose outcome is another than the kept one, or is not kept. `some`: only those that were tried now count."""
    before, after = _comparable(kept, new), _comparable(new, new)
    if some:
        tried = {f"{cell.source} {cell.kind} {cell.name} by {cell.way}" for cell in new.outcomes}
        before = {key: outcome for key, outcome in before.items() if key in tried}
        after = {key: outcome for key, outcome in after.items() if key in tried}
    return sorted(
        f"{key}: kept {before.get(key, 'equal')}, now {after.get(key, 'equal')}"
        for key in before.keys() | after.keys()
        if before.get(key) != after.get(key)
    )


def _comparable(results: Results, of: Results) -> dict[str, Any]:
    """What is kept of the ways that `of` has: counts by type, and the exceptions by name."""
    ways = set(of.ways)
    facts: dict[str, Any] = {}
    equal: Counter[str] = Counter()
    for cell, verdict in results.outcomes.items():
        if cell.way in ways and verdict == "equal":
            equal[f"{cell.source} {cell.kind} by {cell.way}"] += 1
        elif cell.way in ways:
            facts[f"{cell.source} {cell.kind} {cell.name} by {cell.way}"] = verdict
    return {**facts, **equal}
