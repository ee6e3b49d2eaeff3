"""The graph of five hundred nodes with names of 190 characters, as people see it: full size, nothing over anything else."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, Page

from tests.browser.conftest import sign_in
from watcher.features.demo.daemon import Daemon, running_daemon
from watcher.shared.servers import free_port

pytestmark = [pytest.mark.browser, pytest.mark.slow]
SCALE = 125
"""The watchers, the assets that they fill, the jobs, and the assets that these fill: each so many."""
CHAIN = 12
"""So many jobs follow each other, which makes as many columns, and the others stand beside each other."""
TOKEN = ("token", "create", "--subject", "root", "--role", "admin")
LAID_OUT = """
    () => {
        const within = (inner, outer) =>
            inner.left >= outer.left && inner.right <= outer.right && inner.top >= outer.top && inner.bottom <= outer.bottom;
        const svg = document.querySelector(".graph svg");
        const nodes = [...svg.querySelectorAll("a")].map((each) => {
            const box = each.querySelector("rect.node").getBoundingClientRect();
            const texts = [...each.querySelectorAll("text")];
            return {box, name: each.querySelector(".name").textContent, title: each.querySelector("title").textContent,
                outside: texts.filter((text) => !within(text.getBoundingClientRect(), box)).map((text) => text.textContent)};
        });
        const over = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
        return {
            titles: nodes.map((each) => each.title),
            names: nodes.map((each) => each.name),
            outside: nodes.flatMap((each) => each.outside),
            outsideOfPicture: nodes.filter((each) => !within(each.box, svg.getBoundingClientRect())).map((each) => each.name),
            overlapping: nodes.flatMap((one, at) =>
                nodes.slice(at + 1).filter((other) => over(one.box, other.box)).map((other) => [one.name, other.name])),
            letters: Number.parseFloat(getComputedStyle(svg.querySelector(".kind")).fontSize)
                * svg.getBoundingClientRect().width / svg.viewBox.baseVal.width,
            columns: new Set(nodes.map((each) => Math.round(each.box.left))).size,
            wider: document.documentElement.scrollWidth - innerWidth,
        };
    }
"""


def name(kind: str, number: int) -> str:
    return f"{kind}_{'abcdefghi_' * 19}"[:185] + f"_{number:04}"


def configuration(port: int, folder: Path) -> str:
    lines = ["version: 1", f"settings: {{home: home, api: {{port: {port}}}}}", "assets:"]
    for number in range(SCALE):
        watched = f"{{trigger: file.new_files, path: {folder}, interval: 1h}}"
        lines += [f"  {name('in', number)}: {{watchers: {{{name('files', number)}: {watched}}}}}"]
        lines += [f"  {name('out', number)}: {{}}"]
    lines += ["jobs:"]
    for number in range(SCALE):
        awaited = name("out", number - 1) if 0 < number < CHAIN else name("in", number)
        spark = "spark: {application: job.py}"
        lines += [f"  {name('job', number)}: {{schedule: {awaited}, outlets: [{name('out', number)}], {spark}}}"]
    return "\n".join(lines)


@pytest.fixture(scope="module")
async def large(chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[Daemon, str]]:  # noqa: ARG001  no daemon without a browser
    folder = tmp_path_factory.mktemp("large")
    (folder / "empty").mkdir()
    (folder / "job.py").touch()
    port = free_port()
    file = folder / "watchers.yaml"
    file.write_text(configuration(port, folder / "empty"))
    async with running_daemon(file, f"http://127.0.0.1:{port}", os.environ) as daemon:
        yield daemon, (await daemon.said(*TOKEN)).strip()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
async def test_five_hundred_nodes_with_long_names_are_readable(
    chromium: Browser, large: tuple[Daemon, str], scheme: Any, width: int
) -> None:
    daemon, token = large
    context = await chromium.new_context(
        base_url=daemon.url, color_scheme=scheme, viewport={"width": width, "height": 800}
    )
    page = await context.new_page()
    await sign_in(page, token)
    shown = await laid_out(page, "/graph")
    assert (len(shown["titles"]), len({*shown["names"]})) == (4 * SCALE, 4 * SCALE)
    assert {len(title) for title in shown["titles"]} == {190}
    assert shown["columns"] >= 2 * CHAIN
    assert [shown[fault] for fault in ("overlapping", "outside", "outsideOfPicture")] == [[], [], []]
    assert shown["letters"] >= 10
    assert shown["wider"] <= 0
    assert len((await laid_out(page, f"/graph?text={shown['titles'][0][-5:]}&fold=true"))["names"]) < SCALE
    await context.close()


async def laid_out(page: Page, path: str) -> Any:
    await page.goto(path)
    return await page.evaluate(LAID_OUT)
