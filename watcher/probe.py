"""`python -m watcher.probe`: whether the daemon of the home that WATCHER_SETTINGS__HOME names answers `/healthz`.

The image's health check, so it is quick: nothing but the standard library. The daemon writes down where it listens, so
whatever port, host and roles it was given, it is found.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

ADDRESS: Final = "address"
"""The file of a home in which the daemon that runs there says at which address its own machine reaches it."""
DEADLINE: Final = 4.0


def main() -> None:
    """Leave with exit code 1 and a sentence on stderr when it does not answer."""
    home = os.environ.get("WATCHER_SETTINGS__HOME", ".watcher")
    import urllib.request  # noqa: PLC0415  commands need only the name of the file

    try:
        address = (Path(home) / ADDRESS).read_text(encoding="utf-8").strip()
        urllib.request.build_opener(urllib.request.ProxyHandler({})).open(
            f"{address}/healthz", timeout=DEADLINE
        ).close()
    except (OSError, ValueError) as error:
        sys.exit(f"no daemon of {home} answers: {error}")


if __name__ == "__main__":
    main()
