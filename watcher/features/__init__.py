"""The features of this distribution, as data: each is a folder here with a `feature.py` that names what it brings.

The order is that of hooks which run one after another.
"""

from __future__ import annotations

from typing import Final

BUILT_IN: Final[tuple[str, ...]] = ()
"""The names of the features that come with the daemon."""
