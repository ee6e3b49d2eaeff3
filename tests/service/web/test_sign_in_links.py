"""A sign-in link works once, within five minutes, and only by the form behind it."""

from __future__ import annotations

from datetime import timedelta

from sqlalchemy import select, update

from store.database.schema import api_token, audit, database_now
from store.processes import tokens
from tests.service.web.browsing import HOME, Browser


async def link_of(browser: Browser, role: str = "operator") -> str:
    async with browser.api.database.transaction() as connection:
        return await tokens.create_link(connection, "cli:ann", role)


async def test_the_page_behind_a_link_signs_in_once(stranger: Browser) -> None:
    secret = await link_of(stranger)
    for _ in range(2):
        page = await stranger.open(f"/sign-in?link={secret}&next=/assets")
        assert "Sign in with this link" in page.text
    assert (await stranger.send("/sign-in", link=secret, next="/assets")).path == "/assets"
    async with stranger.api.database.reading() as connection:
        entry = (await connection.execute(select(audit).where(audit.c.action == "session.begin"))).one()
    assert entry.actor == "cli:ann"
    stranger.client.cookies.clear()
    refused = await stranger.send("/sign-in", 403, link=secret)
    assert "used before" in refused.text
    assert refused.with_id("token") is not None


async def test_the_role_of_a_link_is_that_of_its_session(stranger: Browser) -> None:
    secret = await link_of(stranger, "viewer")
    await stranger.send("/sign-in", link=secret)
    page = await stranger.open("/")
    assert not [target for target in page.forms if target != "/sign-out"]


async def test_a_link_that_is_old_is_refused(stranger: Browser) -> None:
    secret = await link_of(stranger)
    async with stranger.api.database.transaction() as connection:
        expires = (await connection.execute(select(api_token.c.expires_at, database_now().label("now")))).one()
        assert expires.expires_at - expires.now <= timedelta(minutes=5)
        await connection.execute(update(api_token).values(expires_at=database_now()))
    await stranger.send("/sign-in", 403, link=secret)


async def test_the_secret_of_a_link_is_no_token(stranger: Browser) -> None:
    secret = await link_of(stranger)
    answer = await stranger.client.get("/api/v2/assets", headers={"Authorization": f"Bearer {secret}"})
    assert answer.status_code == 403
    await stranger.send("/sign-in", 403, token=secret)


async def test_another_site_cannot_use_a_link(stranger: Browser) -> None:
    secret = await link_of(stranger)
    sent = await stranger.client.post("/sign-in", data={"link": secret}, headers={"Origin": "http://elsewhere.example"})
    assert sent.status_code == 403
    assert sent.url.host == stranger.client.base_url.host == HOME.removeprefix("http://").split(":")[0]
    await stranger.send("/sign-in", link=secret)
