"""The Execution API: what a running job may ask and write, as the try its token speaks for.

Paths and bodies are those of Airflow 3.3's execution API where it has them.
"""

from fastapi import APIRouter

from watcher.api.execution import assets, store, task_store, tries

router = APIRouter(prefix="/execution")
for part in (store, task_store, tries, assets):  # what jobs call most often is looked at first
    router.include_router(part.router)

__all__ = ["router"]
