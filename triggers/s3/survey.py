"""How many objects lie under a prefix, and how many of them a watcher selects, also where no key can match."""

from __future__ import annotations

from typing import TYPE_CHECKING

from triggers.base import Finding
from triggers.file_scan.options import FileOptions
from triggers.file_scan.questions.survey import Survey
from triggers.file_scan.versions import NOT_SELECTED
from triggers.s3.failures import S3Refused
from triggers.s3.objects import Selection
from triggers.s3.pages import shown_key

if TYPE_CHECKING:
    from triggers.s3.listing import S3Client


async def survey(client: S3Client, selection: Selection, options: FileOptions) -> Finding | None:
    """Return the numbers as a finding; None if a policy allows less than the prefix. Raises `SourceUnavailable`."""
    counted = Survey(
        place=f"under {selection.bucket}/{selection.prefix}",
        noun="objects",
        match=options.match,
        regex=options.regex,
        min_size=options.min_size,
    )
    try:
        await _count(client, selection, counted)
    except S3Refused:
        return None
    return counted.finding if counted.total else await _elsewhere(client, selection.bucket, counted.finding)


async def _count(client: S3Client, selection: Selection, counted: Survey) -> None:
    after: str | None = None
    while not counted.is_full:
        page, _ = await client.list_page(selection.bucket, selection.prefix, after)
        for row in page.rows:
            key = shown_key(row[0], url_encoded=page.url_encoded)
            is_selected = selection.fingerprint(row, url_encoded=page.url_encoded) != NOT_SELECTED
            counted.add(key[len(selection.prefix) :], key, is_selected=is_selected)
        after = page.last
        if after is None:
            return
    counted.has_more = True


async def _elsewhere(client: S3Client, bucket: str, empty: Finding) -> Finding:
    """Return the finding about an empty prefix: a warning if the bucket has objects elsewhere."""
    try:
        page, _ = await client.list_page(bucket, "", None, max_keys=1)
    except S3Refused:  # the policy may allow the prefix alone
        return empty
    if not page.rows:
        return empty
    first = shown_key(page.rows[0][0], url_encoded=page.url_encoded)
    remedy = "correct the prefix, if objects should be there already"
    return Finding.warning("match", f"{empty.message}; the bucket's first object: {first}", remedy)
