"""A watcher of a bucket that selects nothing although its place has objects says so, and no longer once it selects one."""

from __future__ import annotations

from contextlib import aclosing

import anyio
import pytest

from tests.effort import PATIENCE
from tests.service.s3.conftest import Front, Put, new_files
from triggers.s3.listing import S3Client

pytestmark = pytest.mark.service


async def test_a_bucket_without_a_match_is_a_finding_with_the_numbers_the_first_key_and_a_remedy(
    through_front: S3Client, front: Front, bucket: str, put: Put
) -> None:
    put("orders/0.json", "orders/1.json", "other/2.csv")
    trigger = new_files(through_front, bucket, prefix="orders/", match="*.jsn", start="all", min_age="0s")
    trigger._unmatched.after = 0.05
    with anyio.fail_after(PATIENCE):
        async with aclosing(trigger.events(None)) as batches:
            async for batch in batches:
                if batch.findings:
                    break
            [finding] = batch.findings or ()
            assert (finding.check, finding.level) == ("match", "warning")
            assert finding.message == "2 objects, none matches `*.jsn`; the first: orders/0.json, orders/1.json"
            assert "correct `match`" in finding.remedy
            put("orders/3.jsn")
            async for batch in batches:
                if not batch.findings:
                    break
    assert {request.query.get("prefix") for request in front.requests} == {"orders/"}, "nothing else is listed for it"
