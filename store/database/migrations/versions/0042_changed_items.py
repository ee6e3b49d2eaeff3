"""the files that `clean_source` has removed, one by one with their new places, and what was decided of the items of a try.

Files that an earlier release has removed are recorded where it is certain which ones these are. Their places are not known yet: the
host of the watcher looks for them.
"""

from __future__ import annotations

import json

import sqlalchemy as sa
from alembic import op

revision = "0042"
down_revision = "0041"
branch_labels = None
depends_on = None

_BIG_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")
_AT_ONCE = 500
_IS_SOUGHT = sa.text("place = '{}'")


def upgrade() -> None:
    op.add_column("run", sa.Column("changed_items", sa.Text()))
    op.add_column("task_try", sa.Column("changed_items", sa.Text()))
    op.add_column("replay", sa.Column("include_items", sa.Text()))
    op.create_table(
        "removed_file",
        sa.Column(
            "event_id",
            _BIG_ID,
            sa.ForeignKey("asset_event.id", ondelete="CASCADE"),
            autoincrement=False,
            nullable=False,
        ),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("place", sa.Text()),
        sa.Column("in_hand", sa.Boolean(), nullable=False, server_default=sa.false()),
        sa.PrimaryKeyConstraint("event_id", "number"),
    )
    op.create_index(
        "ix_removed_file_sought", "removed_file", ["event_id"], postgresql_where=_IS_SOUGHT, sqlite_where=_IS_SOUGHT
    )
    _record_files_removed_before()


def _record_files_removed_before() -> None:
    connection = op.get_bind()
    removed = sa.table("removed_file", sa.column("event_id"), sa.column("number"), sa.column("place"))
    removed_in_hand = sa.table("removed_file", sa.column("event_id"), sa.column("number"), sa.column("in_hand"))
    query = sa.text(
        "SELECT c.event_id, c.files, c.next_file, c.staying, c.removed, e.extra FROM cleaning c"
        " JOIN asset_event e ON e.id = c.event_id WHERE c.removed > 0 AND c.event_id > :after ORDER BY c.event_id"
        " LIMIT :most"
    )
    after = 0
    while rows := connection.execute(query, {"after": after, "most": _AT_ONCE}).all():
        after = rows[-1].event_id
        new = [
            {"event_id": row.event_id, "number": number, "place": "{}"}
            for row in rows
            for number in _removed_files(row)
        ]
        for start in range(0, len(new), _AT_ONCE):
            connection.execute(sa.insert(removed), new[start : start + _AT_ONCE])

    working = connection.execute(sa.text("SELECT event_id, working FROM cleaning WHERE working IS NOT NULL")).all()
    for row in working:
        in_hand = [
            {"event_id": row.event_id, "number": int(number), "in_hand": True}
            for number in json.loads(row.working)["files"]
        ]
        if in_hand:
            connection.execute(sa.insert(removed_in_hand), in_hand)


def _removed_files(row: sa.Row[tuple[int, str | None, int, str, int, str]]) -> list[int]:
    """Return the numbers of the files of an event that were removed; none where those that were gone before cannot be told from them."""
    files = len(json.loads(row.extra).get("files", ()))
    numbers = range(files) if row.files is None else json.loads(row.files)
    left = {*numbers[row.next_file :], *map(int, json.loads(row.staying))}
    return [number for number in range(files) if number not in left] if row.removed + len(left) == files else []


def downgrade() -> None:
    op.drop_table("removed_file")
    op.drop_column("replay", "include_items")
    op.drop_column("task_try", "changed_items")
    op.drop_column("run", "changed_items")
