"""The two statements of a detection's commit on PostgreSQL; docs/sql/store/detection_commit.sql shows them with their plans."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cache
from typing import Any, Final

from sqlalchemy import ARRAY, Select, Text, bindparam, func, select, true, update

from store.database import configuration_lock
from store.database.dialects import rows_of
from store.database.schema import asset, database_now, watcher, watcher_position
from store.detection import events, interest, positions
from store.detection.positions import NewPosition
from store.references import UNDECIDED
from store.state import statements

COLUMNS: Final = {
    "held": {name: watcher_position.c[name].type for name in ("watcher", "epoch", "version", *NewPosition.COLUMNS)}
    | {name: statements.WATERMARKS[name] for name in ("asset_id", "key")},
    "written": statements.WATERMARKS,
}
"""The columns of detections that each statement takes."""


def columns(name: str, rows: Collection[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the parameters of a statement: an array for each of its columns."""
    return {f"{name}_{column}": [row[column] for row in rows] for column in COLUMNS[name]}


@cache
def advance_and_append(*, skip_locked: bool) -> Select[Any]:
    fenced = positions.advance_all(rows_of("held", COLUMNS["held"]), skip_locked=skip_locked).cte("fenced")
    moved = select(fenced).where(configuration_lock.shared_for_each_row()).cte("moved")
    home = select(moved.c.watcher, moved.c.asset_id, moved.c.key).join_from(
        moved, asset, asset.c.id == moved.c.asset_id
    )
    home = home.order_by(moved.c.asset_id, moved.c.key)
    locked_asset = home.with_for_update(read=True, key_share=True, of=asset).cte("locked_asset").c
    lock = statements.key_lock(locked_asset.asset_id, locked_asset.key)
    locked_key = select(locked_asset.watcher, lock.label("lock")).cte("locked_key")
    new = events.given(detected_by=watcher.c.name.type)
    event = events.insertion(new, only=new.c.detected_by == locked_key.c.watcher).cte("event")
    ids = select(func.array_agg(event.c.id)).scalar_subquery()
    waited = select(func.array_agg(locked_key.c.watcher)).scalar_subquery()
    watchers, versions = (func.array_agg(column) for column in (moved.c.watcher, moved.c.version))
    return select(watchers.label("watchers"), versions.label("versions"), waited.label("waited"), ids.label("ids"))


@cache
def queue_and_write() -> Select[Any]:
    """Return the second statement. It locks the edges before the watchers' rows, as a reload does."""
    queued = events.queue("postgresql").cte("queued")
    undecided = queued.c.satisfies == UNDECIDED
    dag_ids = func.array_agg(queued.c.dag_id.distinct()).filter(~undecided).label("dag_ids")
    filtered = func.bool_or(undecided).label("filtered")
    woken = select(queued.c.asset_id, dag_ids, filtered).group_by(queued.c.asset_id).cte("woken")
    history = statements.write_watermarks(rows_of("written", COLUMNS["written"])).cte("history")
    after_edges = select(func.count()).select_from(woken).scalar_subquery() >= 0
    this = watcher.c.name == func.any(bindparam("b_seen", type_=ARRAY(Text)))
    in_order = select(watcher.c.name, watcher.c.asset_id).where(this, after_edges).order_by(watcher.c.name)
    mine = in_order.with_for_update(key_share=True).cte("mine")
    seen = update(watcher).where(watcher.c.name == mine.c.name).values(last_event_at=database_now()).cte("seen")
    interested = interest.interested()
    watchers, asset_ids = func.array_agg(mine.c.name), func.array_agg(mine.c.asset_id)
    places = select(watchers.label("watchers"), asset_ids.label("asset_ids")).subquery()
    joined = interested.join(places, true()).outerjoin(woken, true())
    answer = (
        woken.c.asset_id,
        woken.c.dag_ids,
        woken.c.filtered,
        interested.c.pairs,
        places.c.watchers,
        places.c.asset_ids,
    )
    return select(*answer).select_from(joined).add_cte(history, seen)
