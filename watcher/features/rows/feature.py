"""New and updated rows of PostgreSQL."""

from watcher.feature import Feature

FEATURE = Feature(
    name="rows",
    triggers={"postgres.new_rows": "triggers.postgres.new_rows.NewRows"},
    connections={"postgres": "triggers.postgres.connection.PostgresConnection"},
    commands={"pg": "watcher.features.rows.commands.pg"},
    help_groups={"pg": "operate"},
)
