"""The Execution API: what a running job may ask and write, as the try its token speaks for.

Paths and bodies are those of Airflow 3.3's execution API where it has them.
"""

from typing import Final

from watcher.api.execution import assets, runs, store, task_store, tries

ROUTERS: Final = tuple(part.router for part in (store, task_store, tries, assets, runs))
"""Under `/execution`. What jobs call most often is looked at first; each router around another costs every request time."""

__all__ = ["ROUTERS"]
