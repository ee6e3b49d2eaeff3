"""A heartbeat to a dead man's switch, for as long as some daemon leads."""

from watcher.feature import Feature, FeatureService

FEATURE = Feature(
    name="heartbeat",
    contract=1,
    settings="asset_watcher_heartbeat.settings.HeartbeatPart",
    upgrade="asset_watcher_heartbeat.tables.upgrade",
    tables_version=1,
    services=(
        FeatureService(
            name="sender",
            build="asset_watcher_heartbeat.service.build",
            scope="scheduler",
        ),
    ),
    routes="asset_watcher_heartbeat.routes.ROUTERS",
    commands={"heartbeat": "asset_watcher_heartbeat.commands.heartbeat"},
)
