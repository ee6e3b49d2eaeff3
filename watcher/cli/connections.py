"""The API for commands without a daemon. It runs in this process on the configured database, so each command exists once."""

from __future__ import annotations

import secrets
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx

from config.models import Configuration
from store.catalog import assets
from store.database import Database
from watcher import assembly
from watcher.cli.api_client import ApiClient
from watcher.cli.database import opened_database
from watcher.configuration.declarations import planners
from watcher.configuration.foreign_classes import DESCRIBED_WITHIN, open_isolation, open_processes
from watcher.configuration.sources import hosted, open_sources
from watcher.configuration.vocabulary import Descriptions
from watcher.host import logs
from watcher.host.home import make_home
from watcher.host.machine import account
from watcher.host.metadata import logs_directory, open_backend
from watcher.installed import installed
from watcher.serving.api import create_app
from watcher.serving.api.context import (
    ApiContext,
    JobSupport,
    Links,
    ProcessState,
    RequestLimits,
    SignIn,
    WatcherControl,
)
from watcher.serving.api.sign_in.same_site import Site
from watcher.triggerer.clients import Clients
from watcher.triggerer.control import Control


@asynccontextmanager
async def in_process(configuration: Configuration) -> AsyncIterator[ApiClient]:
    """Open an API that allows everything, in the name of the account: whoever may open the database may do everything."""
    settings = configuration.settings
    directory = logs_directory(settings)
    make_home(settings.home)
    with open_processes() as processes, processes.classes(DESCRIBED_WITHIN) as classes:
        if classes is not None:
            classes.prepare(settings.plugins_dir, configuration.environment)
        async with opened_database(settings) as database, open_sources(configuration, open_isolation) as clients:
            context = await _context(configuration, database, clients, Descriptions(classes))
            transport = httpx.ASGITransport(create_app(context, context.features), raise_app_exceptions=False)
            with logs.configure(directory, level="warning", json=False, owner="cli", max_file_mb=64):
                async with httpx.AsyncClient(transport=transport, base_url="http://in-this-process") as client:
                    yield ApiClient(client, logs_here=directory, home=settings.home)


async def _context(
    configuration: Configuration, database: Database, clients: Clients, descriptions: Descriptions
) -> ApiContext:
    settings, features = configuration.settings, installed(configuration.settings.features)
    async with database.reading() as connection:
        asset_ids = await assets.ids_by_name(connection)
    control = Control(  # the next daemon notices what moved, and makes the copies of watermarks
        database=database,
        hosted=hosted(configuration, defaultdict(int, asset_ids)),
        clients=clients,
        tables=assembly.tables(features.features),
        poll_timeout=settings.triggerer.poll_timeout,
        count_cleaned=assembly.count_cleaned(features.features),
    )
    return ApiContext(
        database=database,
        entries=open_backend(settings, database).entries(database),
        logs_directory=logs_directory(settings),
        hint=lambda _hint: None,  # no part of a daemon sleeps here
        hooks=assembly.event_hooks(features.features),
        sign_in=SignIn(
            secrets=[secrets.token_bytes(64)], auth="none", anonymous=account(), site=Site(hosts={"in-this-process"})
        ),
        limits=RequestLimits(
            max_value_storage_bytes=settings.store.max_value_storage_bytes,
            default_retention_days=settings.store.default_retention_days,
            event_retention_days=settings.store.event_retention_days,
            run_retention_days=settings.store.run_retention_days,
        ),
        home=settings.home,
        features=features,
        item_hooks=assembly.item_hooks(features.features),
        planners=planners(),
        links=Links(base_url=settings.api.base_url),
        process=ProcessState(configuration_hash=configuration.hash),
        watchers=WatcherControl(control=control, descriptions=descriptions),
        jobs=JobSupport(clear_on_success=settings.store.clear_on_success),
    )
