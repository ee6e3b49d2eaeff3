"""Every change of a PostgreSQL table, in the order of the commits."""

from watcher.feature import Feature, Spelled

FEATURE = Feature(
    name="changes",
    needs=frozenset({"rows"}),
    triggers={"postgres.changes": "triggers.changes.trigger.PostgresChanges"},
    spellings={
        "postgres.new_rows": Spelled(key="mode", value="log", trigger="postgres.changes"),
        "triggers.postgres.new_rows.NewRows": Spelled(
            key="mode", value="log", trigger="triggers.changes.trigger.PostgresChanges"
        ),
    },
    more_commands={"pg": "watcher.features.changes.commands.pg"},
    checks="watcher.features.changes.left_slots.check",
)
