"""`/api/v2/dags`: people and tools list jobs, pause and resume them."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel

from store.catalog import assets
from store.database.paging import PageRequest
from store.errors import NotFound
from store.runs import consumption, jobs, runs
from store.runs.jobs import JOB_ORDERS, JobFilter
from watcher.serving.api.context import ApiContext, Context
from watcher.serving.api.decisions import pause
from watcher.serving.api.document.refusals import MAY_CONFLICT
from watcher.serving.api.filters import RunState, TextPattern, asks_for, range_of
from watcher.serving.api.parameters import Body, Count, Moment, Text, UnorderedWindow, example, ordered_window
from watcher.serving.api.shapes.dags import (
    VERSION,
    DAGCollectionResponse,
    DAGDetailsResponse,
    DAGResponse,
    DAGVersionCollectionResponse,
    DagVersionResponse,
    dag_response,
    details_response,
    version_response,
)
from watcher.serving.api.sign_in.auth import Operator, Viewer

router = APIRouter(prefix="/api/v2/dags", tags=["DAG"])
ALL: Final = "~"
"""Stands for all jobs or all runs in place of an id."""
_Mask = Annotated[list[Literal["is_paused"]] | None, Query()]
_NO_JOB_HAS: Final = (
    "tags",
    "owners",
    "has_import_errors",
    "is_favorite",
    "bundle_name",
    "bundle_version",
    "timetable_type",
)
"""Filters about what no job here has."""
_VERSION_ORDERS: Final = ("id", "version_number", "bundle_name", "bundle_version")


class JobsQuery(BaseModel):
    """The filters of `PATCH /dags`, which `GET /dags` has too."""

    dag_id_pattern: TextPattern = None
    dag_id_prefix_pattern: TextPattern = None
    paused: bool | None = None
    exclude_stale: bool = True
    tags: list[Text] | None = None
    tags_match_mode: Literal["any", "all"] | None = None
    owners: list[Text] | None = None

    @property
    def filter(self) -> JobFilter:
        return JobFilter(
            id_pattern=self.dag_id_pattern,
            id_prefix=self.dag_id_prefix_pattern,
            paused=self.paused,
            only_active=self.exclude_stale,
            is_impossible=asks_for(self, _NO_JOB_HAS),
        )


class JobQuery(JobsQuery):
    """The filters of `GET /dags`."""

    dag_display_name_pattern: TextPattern = None
    dag_display_name_prefix_pattern: TextPattern = None
    has_asset_schedule: bool | None = None
    asset_dependency: TextPattern = None
    last_dag_run_state: RunState | None = None
    dag_run_state: list[RunState] | None = None
    dag_run_start_date_gte: Moment | None = None
    dag_run_start_date_gt: Moment | None = None
    dag_run_start_date_lte: Moment | None = None
    dag_run_start_date_lt: Moment | None = None
    dag_run_end_date_gte: Moment | None = None
    dag_run_end_date_gt: Moment | None = None
    dag_run_end_date_lte: Moment | None = None
    dag_run_end_date_lt: Moment | None = None
    has_import_errors: bool | None = None
    is_favorite: bool | None = None
    bundle_name: Text | None = None
    bundle_version: Text | None = None
    timetable_type: list[Text] | None = None

    @property
    def filter(self) -> JobFilter:
        return replace(
            super().filter,
            display_name_pattern=self.dag_display_name_pattern,
            display_name_prefix=self.dag_display_name_prefix_pattern,
            has_asset_schedule=self.has_asset_schedule,
            asset_dependency=self.asset_dependency,
            last_run_state=self.last_dag_run_state,
            last_run_states=self.dag_run_state,
            last_run_start=range_of(self, "dag_run_start_date"),
            last_run_end=range_of(self, "dag_run_end_date"),
        )


class DAGPatchBody(Body):
    model_config = example(is_paused=True)

    is_paused: bool


class BulkDAGPatchBody(DAGPatchBody):
    """A change of all jobs that match. With an `expected_count`, another count is 409."""

    model_config = example(is_paused=True, expected_count=2)

    expected_count: Count | None = None


@router.get("")
async def list_dags(
    context: Context,
    _: Viewer,
    window: Annotated[PageRequest, Depends(ordered_window(JOB_ORDERS, "dag_id"))],
    query: Annotated[JobQuery, Query()],
) -> DAGCollectionResponse:
    """List jobs."""
    return await _listed(context, query.filter, window)


@router.patch("", responses=MAY_CONFLICT)
async def patch_dags(
    context: Context,
    actor: Operator,
    window: UnorderedWindow,
    query: Annotated[JobsQuery, Query()],
    body: BulkDAGPatchBody,
    update_mask: _Mask = None,  # noqa: ARG001  the body has no other member to mask
) -> DAGCollectionResponse:
    """Pause or resume all configured jobs that match, not only those that the answer shows.

    Without a pattern no job is changed. The pattern `~` matches all jobs.
    """
    if query.dag_id_pattern is None and query.dag_id_prefix_pattern is None:
        return DAGCollectionResponse(dags=[], total_entries=0)
    async with context.database.reading() as connection:
        matching = await jobs.ids(connection, replace(query.filter, only_active=True))
    await pause(context, actor, matching, paused=body.is_paused, expected_count=body.expected_count)
    return await _listed(context, JobFilter(ids=matching), replace(window, order_by=["dag_id"]))


async def _listed(context: ApiContext, which: JobFilter, window: PageRequest) -> DAGCollectionResponse:
    async with context.database.reading() as connection:
        listed = await jobs.listed(connection, which, window)
        unprocessed = await consumption.unprocessed_of_jobs(connection, [job.dag_id for job in listed.rows])
    return DAGCollectionResponse(
        dags=[dag_response(job, unprocessed) for job in listed.rows], total_entries=listed.total
    )


@router.get("/{dag_id}")
async def get_dag(context: Context, _: Viewer, dag_id: str) -> DAGResponse:
    """Return a job."""
    async with context.database.reading() as connection:
        job = await jobs.get(connection, dag_id)
        return dag_response(job, await consumption.unprocessed_of_jobs(connection, [dag_id]))


@router.get("/{dag_id}/details")
async def get_dag_details(context: Context, _: Viewer, dag_id: str) -> DAGDetailsResponse:
    """Return a job with its details."""
    async with context.database.reading() as connection:
        job = await jobs.get(connection, dag_id)
        unprocessed = await consumption.unprocessed_of_jobs(connection, [dag_id])
        around = await assets.around_job(connection, dag_id)
        running = await runs.running_runs(connection)
    uris = {asset.name: asset.uri for asset in around if asset.role == "schedule"}
    return details_response(job, unprocessed, uris, running.get(dag_id, 0))


@router.patch("/{dag_id}")
async def patch_dag(
    context: Context,
    actor: Operator,
    dag_id: str,
    body: DAGPatchBody,
    update_mask: _Mask = None,  # noqa: ARG001  the body has no other member to mask
) -> DAGResponse:
    """Pause or resume a job."""
    await pause(context, actor, [dag_id], paused=body.is_paused)
    return await get_dag(context, actor, dag_id)


@router.get("/{dag_id}/dagVersions")
async def list_dag_versions(
    context: Context,
    _: Viewer,
    dag_id: str,
    window: Annotated[PageRequest, Depends(ordered_window(_VERSION_ORDERS, "id"))],
    version_number: int | None = None,
    bundle_name: str | None = None,
    bundle_version: str | None = None,
) -> DAGVersionCollectionResponse:
    """List the versions of a job, or with `~` of all jobs. Each job has one version: its present configuration.

    Every `order_by` orders by the job.
    """
    is_impossible = version_number not in {None, VERSION} or bundle_name is not None or bundle_version is not None
    ids = None if dag_id == ALL else [dag_id]
    which = JobFilter(ids=ids, only_active=dag_id == ALL, is_impossible=is_impossible)
    by_job = replace(window, order_by=["-dag_id" if window.order_by[0].startswith("-") else "dag_id"])
    async with context.database.reading() as connection:
        if dag_id != ALL:
            await jobs.get(connection, dag_id)
        listed = await jobs.listed(connection, which, by_job)
    versions = [version_response(job) for job in listed.rows]
    return DAGVersionCollectionResponse(dag_versions=versions, total_entries=listed.total)


@router.get("/{dag_id}/dagVersions/{version_number}")
async def get_dag_version(context: Context, _: Viewer, dag_id: str, version_number: int) -> DagVersionResponse:
    """Return a version of a job. Only its present configuration exists."""
    async with context.database.reading() as connection:
        job = await jobs.get(connection, dag_id)
    if version_number != VERSION:
        raise NotFound(f"{dag_id!r} has no version {version_number}; use {VERSION}, its present configuration")
    return version_response(job)
