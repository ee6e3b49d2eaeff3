"""Write `docs/values.md` from `values.json`: `python -m tests.corpus.page`. No Spark is needed."""

from __future__ import annotations

import ast
import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from tests.corpus import texts
from tests.corpus.results import VALUES

PAGE: Final = Path(__file__).parents[2] / "docs" / "values.md"
SOURCES: Final = {
    "csv": "CSV",
    "json": "JSON",
    "text": "Text",
    "parquet": "Parquet",
    "postgres": "Rows of PostgreSQL",
    "table": "Tables",
}
WAYS: Final = {
    "parser": "the reader of files alone, in blocks of 1, 7 and 100 bytes and in one",
    "parser, alone": "the reader of files alone, each value in a file of its own",
    "rows": "the reader of rows alone",
    "folder": "`r.read` from a folder",
    "s3": "`r.read` from S3",
    "s3 packed": "`r.read` of the same files, packed by gzip",
    "event": "values in events of rows",
    "pgrows": "`r.read` of rows",
    "ingest parquet": "`builtin:ingest` into a Parquet table",
    "ingest delta": "`builtin:ingest` into a Delta table",
    "ingest iceberg": "`builtin:ingest` into an Iceberg table",
    "append parquet": "`r.append` to a Parquet table in a folder, read back",
    "append s3": "`r.append` to a Parquet table on S3, read back",
    "append delta": "`r.append` to a Delta table, read back",
    "append iceberg": "`r.append` to an Iceberg table, read back",
}
NUMBERS: Final = frozenset((*texts.WHOLE, *texts.POINTS, *texts.SPACED))
TIMES: Final = frozenset((*texts.DAYS, *texts.MOMENTS))
OWN: Final = {
    **dict.fromkeys(("byte", "short", "int", "long", "float", "double"), NUMBERS),
    **dict.fromkeys(("date", "timestamp", "timestamp_ntz"), TIMES),
    "boolean": frozenset(texts.FLAGS),
}
"""The texts that one might take for a value of the type. A page lists those of them that are refused; others are counted."""

INTRODUCTION: Final = """\
<!-- Written by `python -m tests.corpus.page` from tests/corpus/values.json. Change neither by hand. -->
# What becomes of each value

What a job's DataFrame, an event and a written table hold is the value that the source has; or a documented conversion of it; or
the value is refused by name, as a bad record or by a sentence that fails the run. It is never another value, and there are never
fewer rows. [Reading what is new](writing-a-job.md#reading-what-is-new) has the rules. This page has the evidence.

The corpus in `tests/corpus` tries {files} cells. A cell is a value or a file, read by one way. The expected value comes from the
source by a program that shares no code with the readers: Python's `csv` and `json` with exact numbers, psycopg in PostgreSQL's own
texts, pyarrow, DuckDB and Spark as writers of Parquet, and lists by hand. No cell differs from its source.

*Equal* is the value as the source has it. *Documented* is a conversion that says the same, or one that the job asked for, such as
`on_unrepresentable: null`; each is named below. *Refused* is a bad record with its reason, or a sentence that names the file or
table. Below the table of each source stand its documented conversions, and what is refused.

"""
END: Final = """
## Try it yourself

`python -m tests.corpus.run --ways parser` takes seconds, `python -m tests.corpus.run` some minutes: it needs Java for Spark. A cell
whose outcome is not the one kept in `tests/corpus/values.json` fails it, and so does one that differs from its source. With
`--write` the file is written anew. `python -m tests.corpus.fuzz --seed 1 --files 100000` reads files that nobody thought of, and
`python -m tests.corpus.mutants` plants faults in the readers and shows that they are noticed.
"""


def page(values: Mapping[str, Mapping[str, Any]]) -> str:
    """The page's text."""
    total = sum(
        sum(counts.values())
        for kinds in values.values()
        for entry in kinds.values()
        for counts in entry["ways"].values()
    )
    lines = [INTRODUCTION.replace("{files}", f"{total:,}"), "## Ways", ""]
    lines += ["| source | way | what it is | equal | documented | refused |", "|---|---|---|---|---|---|"]
    for source, kinds in _ordered(values, SOURCES):
        by_way: dict[str, Counter[str]] = {}
        for entry in kinds.values():
            for way, counts in entry["ways"].items():
                by_way.setdefault(way, Counter()).update(counts)
        lines += [
            f"| {SOURCES.get(source, source)} | `{way}` | {WAYS.get(way, way)} | {_counts(counts)} |"
            for way, counts in _ordered(by_way, WAYS)
        ]
    for source, kinds in _ordered(values, SOURCES):
        lines += [
            "",
            f"## {SOURCES.get(source, source)}",
            "",
            "| type | way | equal | documented | refused |",
            "|---|---|---|---|---|",
        ]
        for kind, entry in sorted(kinds.items()):
            lines += [f"| {_type(kind)} | {ways} | {_counts(counts)} |" for ways, counts in _same_counts(entry["ways"])]
        for kind, entry in sorted(kinds.items()):
            lines += _exceptions(source, kind, entry["exceptions"])
    return "\n".join(lines) + "\n" + END


def _ordered(values: Mapping[str, Any], order: Mapping[str, str]) -> list[tuple[str, Any]]:
    names = list(order)
    return sorted(values.items(), key=lambda item: (names.index(item[0]) if item[0] in names else len(names), item[0]))


def _counts(counts: Mapping[str, int]) -> str:
    return " | ".join(f"{counts.get(verdict, 0):,}" for verdict in ("equal", "documented", "refused"))


def _same_counts(ways: Mapping[str, Mapping[str, int]]) -> Iterator[tuple[str, Mapping[str, int]]]:
    """Ways with the same counts, joined."""
    joined: dict[str, list[str]] = {}
    for way, counts in _ordered(ways, WAYS):
        joined.setdefault(json.dumps(counts, sort_keys=True), []).append(f"`{way}`")
    for counts, names in joined.items():
        yield ", ".join(names), json.loads(counts)


def _type(kind: str) -> str:
    return "whole files" if kind == "file" else f"`{kind}`"


def _exceptions(source: str, kind: str, exceptions: Mapping[str, Mapping[str, list[str]]]) -> Iterator[str]:
    for verdict, by_ways in exceptions.items():
        for ways, names in by_ways.items():
            how = "" if ways == "all" else f" by {ways}"
            for word, texts_of in _by_word(source, names).items():
                yield from (
                    "",
                    f"**{_type(kind)}, {verdict}{how}** with `on_unrepresentable: {word}`: {', '.join(texts_of)}.",
                )
            listed = [(name, _text_in(name)) for name in names if not _word(source, name)]
            plain = sorted({name for name, text in listed if text is None})
            shown = list(dict.fromkeys(text for _, text in listed if text is not None and _is_own(source, kind, text)))
            others = len({text for _, text in listed if text is not None} - set(shown))
            if shown or others:
                more = f"; and {others} other texts that are no values of the type" if others else ""
                yield from (
                    "",
                    f"**{_type(kind)}, {verdict}{how}**: {', '.join(map(_code, shown)) or 'none that looks like one'}{more}.",
                )
            if plain:
                yield from ("", f"**{_type(kind)}, {verdict}{how}**:", "")
                yield from (f"- {name}" for name in map(_escaped, plain))


def _word(source: str, name: str) -> str | None:
    """The value of `on_unrepresentable` in the name of a cell of rows; None if it has none."""
    word, _, literal = name.partition(" ")
    return word if source == "postgres" and word in {"bad", "null", "text"} and literal[:1] in {"'", '"'} else None


def _by_word(source: str, names: Iterable[str]) -> Mapping[str, list[str]]:
    """The values of PostgreSQL, as the page shows them, by what `on_unrepresentable` was."""
    by_word: dict[str, list[str]] = {}
    for name in names:
        if word := _word(source, name):
            by_word.setdefault(word, []).append(_code(str(ast.literal_eval(name.partition(" ")[2]))))
    return by_word


def _text_in(name: str) -> str | None:
    """The text of a cell of a group; None for a cell that is a file."""
    group, _, text = name.partition(" ")
    if group in {"bare", "quoted", "text", "token", "row"} and text[:1] in {"'", '"'}:
        return str(ast.literal_eval(text))
    return None


def _is_own(source: str, kind: str, text: str) -> bool:
    if source not in {"csv", "json"}:
        return True
    return text in OWN.get(kind, NUMBERS if kind.startswith("decimal") else frozenset())


def _code(text: str) -> str:
    shown = repr(text)[1:-1] if text else "an empty text"
    shown = shown if len(shown) <= 60 else f"{shown[:50]}…"
    return f"`` {shown} ``" if "`" in shown else f"`{shown}`"


def _escaped(name: str) -> str:
    return "".join(f"\\{each}" if each in "\\`*_{}[]<>()#+!|~" else each for each in name)


def written(lines: Iterable[str]) -> None:
    PAGE.write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    written([page(json.loads(VALUES.read_text(encoding="utf-8")))])
    sys.exit(0)
