"""Names, keys, values and log lines that could affect a page are harmless and visible."""

from __future__ import annotations

from urllib.parse import quote

import structlog

from tests.databases import on_both
from tests.service.web.browsing import Browser, Page

pytestmark = on_both
HTML = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'&{{7777*7777}}"
BIDI = "invoice\u202egpj.exe\u2066 a\u200bb"
log = structlog.get_logger()


def is_harmless(page: Page) -> None:
    assert len(list(page.all("script"))) == 1
    assert list(page.all("img")) == []
    assert "\u202e" not in page.answer.text
    assert "\u2066" not in page.answer.text
    assert "60481729" not in page.text


async def test_strange_keys_and_values_are_harmless(browser: Browser) -> None:
    value = {"html": HTML, "bidi": BIDI, "control": "\x1b[31mred\x07", "long": "x" * 60_000}
    for key in (HTML, BIDI, "a/../b?c#d%2F", "é" * 512):
        await browser.api.client.put(browser.api.store("orders", quote(key, safe="")), json={"value": value})

    page = await browser.open(browser.asset("orders"))

    is_harmless(page)
    assert HTML in page.text
    assert "invoice\\u202egpj.exe\\u2066 a\\u200bb" in page.text
    assert len(page.answer.text) < 40_000, "lists show the beginning of long values only"
    entries = [link for link in page.links if "/entry?key=" in link]
    assert len(entries) == 4
    for link in entries:
        whole = await browser.open(link)
        is_harmless(whole)
        assert "x" * 60_000 in whole.text
        assert "\\u001b[31mred" in whole.text.replace("\\\\", "\\")


async def test_strange_log_lines_are_harmless(browser: Browser) -> None:
    log.info(HTML, watcher="landing_files", bidi=BIDI, nested={"deep": [HTML]}, control="\x1b[31mred")
    path = browser.api.context.logs_directory / "watchers/landing_files/owner.log"
    with path.open("ab") as file:
        file.write(b"\xff\xfe no text \x1b[31m\r\n[1,2]\n" + "\u202e".encode() + b"x" * 70_000 + b"\n")

    page = await browser.open("/watchers/landing_files/log")

    is_harmless(page)
    assert HTML in page.text
    assert "\\u202e" in page.text


async def test_strange_search_texts_are_harmless(browser: Browser) -> None:
    for text in (HTML, BIDI, "%", "_", "9" * 200, "\ud800", "'; DROP TABLE asset; --", "a|b", "~"):
        page = await browser.open(f"/search?q={quote(text, errors='surrogatepass')}")
        is_harmless(page)
    assert "landing" not in (await browser.open("/search?q=%25")).text
    assert "landing" in (await browser.open("/search?q=LAND")).text


async def test_invalid_addresses_are_refused(browser: Browser) -> None:
    for path in (
        "/runs?state=lost",
        "/runs?before=-1",
        "/runs?before=99999999999999999999",
        "/audit?write_id=%20",
        f"{browser.asset('orders')}/entry",
        f"{browser.asset('orders')}/entry?key=%00",
        "/assets/99999999999999999999",
        "/events/99999999999999999999",
        "/events/one",
        "/events/1?after=-1",
    ):
        answer = await browser.client.get(path)
        assert answer.status_code in {404, 422}, (path, answer.status_code)
        assert answer.headers["content-type"].startswith("text/html") or "NUL" in answer.text
    for path in ("/runs?job=%3Cb%3E", "/graph?around=%3Cscript%3E", "/assets?after=%F0%9F%98%80"):
        is_harmless(await browser.open(path))
