"""The Execution API: a running job reads and writes here, as the try that its token identifies.

Paths and bodies are those of Airflow 3.3's execution API where Airflow has them.
"""

from typing import Final

from watcher.serving.api.execution import assets, connections, runs, store, task_store, tries

ROUTERS: Final = tuple(part.router for part in (store, task_store, tries, assets, runs, connections))
__all__ = ["ROUTERS"]
