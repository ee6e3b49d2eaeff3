"""The demo's link leads to its own page."""

from __future__ import annotations

from pathlib import Path

import pytest

from watcher.features.demo.setting import Setting
from watcher.features.demo.view import invitation

pytestmark = pytest.mark.feature("demo")


def test_what_the_demo_prints_names_its_page(tmp_path: Path) -> None:
    setting = Setting(configuration=tmp_path / "watchers.yaml", environment={}, url="http://127.0.0.1:1")
    assert "the pages: http://127.0.0.1:1/demo" in invitation(setting, "watcher", "http://127.0.0.1:1/sign-in?link=x")
