"""Prints an answer as a table for people, or as JSON, YAML or CSV for programs."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, TypeAlias

import typer

from watcher.cli.failures import CommandFailed, ExitCode
from watcher.cli.plain_text import harmless, harmless_lines
from watcher.cli.tables import Readable

Form: TypeAlias = Literal["table", "json", "yaml", "csv"]
OutputOption = Annotated[Form | None, typer.Option("--output", "-o", help="How to print it.", show_default="table")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, as `-o json`.")]


REST: Final = "more"
OF_LOGS: Final = ("timestamp", "level", "event", REST)
"""The columns of a log as CSV. The last one has everything that is in no other column."""


@dataclass(frozen=True, kw_only=True)
class Show:
    """Prints answers in the requested form."""

    form: Form

    @classmethod
    def of(cls, output: Form | None, as_json: bool) -> Show:
        if as_json and output not in {None, "json"}:
            raise CommandFailed(f"--json and --output {output} exclude each other; give one of them", ExitCode.USAGE)
        return cls(form="json" if as_json else output or "table")

    @property
    def for_people(self) -> bool:
        return self.form == "table"

    def __call__(self, data: Any, readable: Callable[[], Readable], style: str = "") -> None:
        """Print data. `readable` makes the form for people."""
        if self.form != "table":
            typer.echo(_WRITERS[self.form](data), nl=False)
            return
        shown = readable()
        if isinstance(shown, str) and not style:
            typer.echo(harmless_lines(shown))
            return
        from watcher.cli.rendering import render  # noqa: PLC0415  see watcher.cli

        render(shown, style=style)

    def more(self, readable: Callable[[], Readable], style: str = "") -> None:
        """Print something for people only: programs have it in the answer already."""
        if self.for_people:
            self(None, readable, style)

    def done(self, sentence: str) -> None:
        """Tell people what was done."""
        if self.for_people:
            typer.echo(harmless_lines(sentence))

    def problem(self, data: Any) -> bool:
        """Print what is wrong when the form is for programs. Return whether it is."""
        if not self.for_people:
            self(data, str)
        return not self.for_people

    @property
    def log_headers(self) -> Mapping[str, str]:
        """The headers of a request for a log, whose answer `log` prints."""
        return {"Accept": "text/plain" if self.for_people else "application/x-ndjson"}

    def log(self, content: str) -> None:
        if self.for_people:
            typer.echo(harmless_lines(content), nl=False)
        elif self.form == "json":
            typer.echo(content, nl=False)
        else:
            write = self.stream(str)
            for line in content.splitlines():
                write(json.loads(line))

    def stream(
        self, as_text: Callable[[Mapping[str, Any]], str], columns: Sequence[str] = OF_LOGS
    ) -> Callable[[Mapping[str, Any]], None]:
        """Return a function that prints records as they come: text, JSON lines, a YAML list, or CSV with these columns."""
        if self.form == "csv":
            typer.echo(_csv_line([*columns]), nl=False)
        line_of: Mapping[Form, Callable[[Any], str]] = {
            "table": lambda record: f"{harmless_lines(as_text(record))}\n",
            "json": as_json,
            "yaml": lambda record: as_yaml([record]),
            "csv": lambda record: _csv_record(record, columns),
        }
        return lambda record: typer.echo(line_of[self.form](record), nl=False)


def as_json(data: Any) -> str:
    return f"{json.dumps(data)}\n"


def as_yaml(data: Any) -> str:
    """Return data as YAML in ASCII; other characters become escapes, as in JSON."""
    from ruamel.yaml import YAML  # noqa: PLC0415  see watcher.cli

    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style, yaml.allow_unicode = False, False
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]  # ruamel types its default, None
    text = io.StringIO()
    yaml.dump(data, text)
    return text.getvalue()


def as_csv(data: Any) -> str:
    """Return CSV with a line for each member of a list, and a column for each name in any of them."""
    rows = [row if isinstance(row, dict) else {"value": row} for row in (data if isinstance(data, list) else [data])]
    columns = list(dict.fromkeys(name for row in rows for name in row))
    return _csv_line(columns) + "".join(_csv_line([row.get(name) for name in columns]) for row in rows)


def _csv_record(record: Mapping[str, Any], columns: Sequence[str]) -> str:
    rest = {name: value for name, value in record.items() if name not in columns}
    return _csv_line([rest or None if name == REST else record.get(name) for name in columns])


def _csv_line(values: list[Any]) -> str:
    """Return a line of CSV. A value that is neither text nor a number becomes JSON; null becomes nothing."""
    text = io.StringIO()
    cells = [
        harmless(value) if isinstance(value, str) else "" if value is None else json.dumps(value) for value in values
    ]
    csv.writer(text, lineterminator="\n").writerow(cells)
    return text.getvalue()


_WRITERS: Mapping[Form, Callable[[Any], str]] = {"json": as_json, "yaml": as_yaml, "csv": as_csv}
