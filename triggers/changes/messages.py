"""Messages of pgoutput, protocol version 1, as `pg_logical_slot_peek_binary_changes` returns them (pure).

https://www.postgresql.org/docs/current/protocol-logicalrep-message-formats.html
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from struct import Struct
from typing import Final, Literal, TypeAlias

_EPOCH: Final = datetime(2000, 1, 1, tzinfo=UTC)
_BYTE, _SHORT, _INT, _LONG = Struct("!B"), Struct("!H"), Struct("!I"), Struct("!Q")
_TIME: Final = Struct("!q")


class Unsent(Enum):
    """A value that PostgreSQL does not send, because it is stored out of line and did not change."""

    TOAST = "u"


Value: TypeAlias = "str | Literal[Unsent.TOAST] | None"
"""A column's value in the text form of its type; None is null."""
Values: TypeAlias = "Sequence[Value]"
"""One value for each column of the relation, in its order."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Begin:
    """The beginning of a transaction. `commit` is the LSN of its commit record, `time` that of its commit."""

    commit: int
    time: datetime
    xid: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Commit:
    """The end of a transaction. `end` is the LSN behind its commit record."""

    commit: int
    end: int


@dataclass(frozen=True, kw_only=True, slots=True)
class RelationColumn:
    name: str
    type: int
    """The oid of the type, or of the domain."""
    in_identity: bool
    """Whether the row before a change has its value."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PublishedRelation:
    """A relation as it was when the changes after this message were made. `replica_identity` is `d`, `n`, `f` or `i`."""

    oid: int
    schema: str
    name: str
    replica_identity: str
    columns: Sequence[RelationColumn]


@dataclass(frozen=True, kw_only=True, slots=True)
class RowChange:
    """A changed row. `old` is the row before, or its replica identity, as far as it was sent; `new` is None for a DELETE."""

    op: Literal["insert", "update", "delete"]
    relation: int
    new: Values | None = None
    old: Values | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Truncate:
    relations: Sequence[int]


Message: TypeAlias = "Begin | Commit | PublishedRelation | RowChange | Truncate"


class UnknownMessage(ValueError):
    """Bytes that are no message of protocol version 1."""


def decode(data: bytes) -> Message | None:
    """Return the message; None for one that says nothing about rows. Raises `UnknownMessage`."""
    if (read := _READERS.get(data[:1])) is not None:
        fields = _Fields(data)
        message = read(fields)
        if fields.at == len(data):
            return message
    elif data[:1] in _WITHOUT_ROWS:
        return None
    raise UnknownMessage(f"no message of pgoutput's protocol version 1: {data[:40]!r}")


class _Fields:
    """The fields of one message, read in their order."""

    __slots__ = ("_data", "at")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 1

    def number(self, form: Struct) -> int:
        if self.at + form.size > len(self._data):
            raise UnknownMessage(f"a message ends early: {self._data[:40]!r}")
        (value,) = form.unpack_from(self._data, self.at)
        self.at += form.size
        return int(value)

    def char(self) -> bytes:
        return bytes([self.number(_BYTE)])

    def text(self, length: int) -> str:
        end = self.at + length
        if end > len(self._data):
            raise UnknownMessage(f"a message ends early: {self._data[:40]!r}")
        value, self.at = self._data[self.at : end].decode(), end
        return value

    def string(self) -> str:
        end = self._data.find(b"\0", self.at)
        if end < 0:
            raise UnknownMessage(f"a message ends early: {self._data[:40]!r}")
        value, self.at = self._data[self.at : end].decode(), end + 1
        return value

    def time(self) -> datetime:
        return _EPOCH + timedelta(microseconds=self.number(_TIME))

    def values(self) -> Values:
        return [self._value() for _ in range(self.number(_SHORT))]

    def _value(self) -> Value:
        match self.char():
            case b"n":
                return None
            case b"u":
                return Unsent.TOAST
            case b"t":
                return self.text(self.number(_INT))
        raise UnknownMessage(f"a value is neither text nor null: {self._data[:40]!r}")


def _begin(fields: _Fields) -> Begin:
    return Begin(commit=fields.number(_LONG), time=fields.time(), xid=fields.number(_INT))


def _commit(fields: _Fields) -> Commit:
    fields.number(_BYTE)
    message = Commit(commit=fields.number(_LONG), end=fields.number(_LONG))
    fields.time()
    return message


def _relation(fields: _Fields) -> PublishedRelation:
    oid, schema, name = fields.number(_INT), fields.string(), fields.string()
    identity = fields.char().decode()
    columns = [_column(fields) for _ in range(fields.number(_SHORT))]
    # an empty schema stands for this one
    return PublishedRelation(
        oid=oid, schema=schema or "pg_catalog", name=name, replica_identity=identity, columns=columns
    )


def _column(fields: _Fields) -> RelationColumn:
    is_identity = bool(fields.number(_BYTE))
    column = RelationColumn(name=fields.string(), type=fields.number(_INT), in_identity=is_identity)
    fields.number(_INT)
    return column


def _insert(fields: _Fields) -> RowChange:
    relation = fields.number(_INT)
    _expect(fields.char(), b"N")
    return RowChange(op="insert", relation=relation, new=fields.values())


def _update(fields: _Fields) -> RowChange:
    relation, kind, old = fields.number(_INT), fields.char(), None
    if kind in (b"K", b"O"):
        old, kind = fields.values(), fields.char()
    _expect(kind, b"N")
    return RowChange(op="update", relation=relation, new=fields.values(), old=old)


def _delete(fields: _Fields) -> RowChange:
    relation = fields.number(_INT)
    _expect(fields.char(), b"K", b"O")
    return RowChange(op="delete", relation=relation, old=fields.values())


def _truncate(fields: _Fields) -> Truncate:
    count = fields.number(_INT)
    fields.number(_BYTE)
    return Truncate(relations=[fields.number(_INT) for _ in range(count)])


def _expect(kind: bytes, *kinds: bytes) -> None:
    if kind not in kinds:
        raise UnknownMessage(f"a row begins with {kind!r}")


_READERS: Final[Mapping[bytes, Callable[[_Fields], Message]]] = {
    b"B": _begin,
    b"C": _commit,
    b"R": _relation,
    b"I": _insert,
    b"U": _update,
    b"D": _delete,
    b"T": _truncate,
}
_WITHOUT_ROWS: Final = {b"O", b"Y", b"M", b"A"}
"""Origins, names of types, messages of applications, and the end of a stream.

PostgreSQL 18 sends the last, although there is no stream, for a savepoint in a large transaction that was rolled back as a whole.
"""
