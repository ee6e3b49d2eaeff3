"""The Execution API: what a running job may ask and write, as the try its token speaks for.

Paths and bodies are those of Airflow 3.3's execution API where it has them.
"""

from typing import Final

from watcher.serving.api.execution import assets, runs, store, task_store, tries

ROUTERS: Final = tuple(part.router for part in (store, task_store, tries, assets, runs))
"""What jobs call most often is looked at first."""

__all__ = ["ROUTERS"]
