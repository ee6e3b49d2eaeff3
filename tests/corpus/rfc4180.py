"""A strict reader of CSV, character by character: the records of RFC 4180, and what is bad by docs/ingest.md. Slow and plain."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CsvField:
    text: str
    quoted: bool


@dataclass(frozen=True, kw_only=True)
class CsvRecord:
    text: str
    """The whole record, without its line end."""
    fields: tuple[CsvField, ...] = ()
    fault: str | None = None
    count: int = 1


@dataclass(frozen=True, kw_only=True)
class Dialect:
    separator: str = ","
    quote: str = '"'
    escape: str | None = None
    comment: str | None = None
    columns: int = 1


class _Fault(Exception):
    """The record is bad; it reaches to the next line's end."""


class CsvFile:
    """The records of a file's text, in which bytes that are no UTF-8 are surrogates."""

    def __init__(self, text: str, dialect: Dialect) -> None:
        self.text, self.dialect = text, dialect
        self.at = 0
        self.end: str | None = None

    def records(self) -> list[CsvRecord]:
        records = []
        while self.at < len(self.text):
            record = self._record()
            if record is not None:
                records.append(record)
        return records

    def _record(self) -> CsvRecord | None:
        start = self.at
        if self.dialect.comment and self.text.startswith(self.dialect.comment, start):
            self._skip_line()
            return None
        fields: list[CsvField] = []
        fault = None
        try:
            while True:
                fields.append(self._field())
                if not self.text.startswith(self.dialect.separator, self.at):
                    break
                self.at += 1
            stop = self.at
            self._line_end()
        except _Fault as error:
            fault = str(error)
            stop = self._skip_line()
        except EOFError:
            rest, end = self.text[start:], "\r" if self.end == "\r" else "\n"
            self.at = len(self.text)
            return CsvRecord(text=rest, fault="open", count=len(rest.removesuffix(end).split(end)))
        text = self.text[start:stop]
        if not text and self.dialect.columns > 1:
            return None
        if fault is None and any("\udc80" <= character <= "\udcff" for character in text):
            fault = "bytes"
        if fault is None and len(fields) != self.dialect.columns:
            fault = "fields"
        return CsvRecord(text=text, fields=tuple(fields), fault=fault)

    def _field(self) -> CsvField:
        quote = self.dialect.quote
        if not self.text.startswith(quote, self.at):
            start = self.at
            while self.at < len(self.text) and self.text[self.at] not in (self.dialect.separator, "\r", "\n"):
                if self.text[self.at] == quote:
                    raise _Fault("quote")
                self.at += 1
            return CsvField(self.text[start : self.at], quoted=False)
        self.at += 1
        characters = []
        while True:
            if self.at >= len(self.text):
                raise EOFError
            character = self.text[self.at]
            if self.dialect.escape and character == self.dialect.escape and self.at + 1 < len(self.text):
                characters.append(self.text[self.at + 1])
                self.at += 2
            elif character != quote:
                characters.append(character)
                self.at += 1
            elif self.text.startswith(quote * 2, self.at):
                characters.append(quote)
                self.at += 2
            else:
                self.at += 1
                if self.at < len(self.text) and self.text[self.at] not in (self.dialect.separator, "\r", "\n"):
                    raise _Fault("behind")
                return CsvField("".join(characters), quoted=True)

    def _line_end(self) -> None:
        """Consume the end of a line. The first decides what all are."""
        if self.at >= len(self.text):
            return
        self.end = self.end or ("\r\n" if self.text.startswith("\r\n", self.at) else self.text[self.at])
        if not self.text.startswith(self.end, self.at):
            raise _Fault("line end")
        self.at += len(self.end)

    def _skip_line(self) -> int:
        """Go on behind the next line's end, whatever is before it. Return where the line ends."""
        ends = [self.end] if self.end else ["\r\n", "\n", "\r"]
        places = [(at, end) for end in ends if (at := self.text.find(end, self.at)) >= 0]
        if not places:
            self.at = len(self.text)
            return self.at
        stop, end = min(places, key=lambda place: (place[0], -len(place[1])))
        self.end, self.at = self.end or end, stop + len(end)
        return stop
