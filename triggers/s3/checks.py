"""The start-up checks of `s3.new_files`, and how many of the objects under a prefix a watcher selects."""

from __future__ import annotations

import html
import re
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from triggers.base import Finding
from triggers.errors import SourceUnavailable
from triggers.file_scan.options import FileOptions
from triggers.file_scan.questions.survey import Survey
from triggers.file_scan.versions import NOT_SELECTED
from triggers.options import format_duration
from triggers.s3.failures import S3Refused
from triggers.s3.objects import Selection
from triggers.s3.pages import shown_key

if TYPE_CHECKING:
    from triggers.s3.listing import S3Client

_RULE: Final = re.compile(rb"<Rule>(.*?)</Rule>", re.DOTALL)
_ENABLED: Final = re.compile(rb"<Status>\s*Enabled\s*</Status>")
_PREFIX: Final = re.compile(rb"<Prefix>([^<]*)</Prefix>")
_DAYS: Final = re.compile(rb"<DaysAfterInitiation>\s*([0-9]{1,4})\s*</DaysAfterInitiation>")


async def listing_check(client: S3Client, bucket: str, prefix: str) -> Finding:
    """List one object, which shows that bucket, region, credentials and permission are right."""
    try:
        await client.list_page(bucket, prefix, None, max_keys=1)
    except S3Refused as error:
        return error.failure.finding("listing")
    return Finding.ok("listing", f"bucket {bucket!r} at {client.endpoint} is listed")


async def uploads_check(client: S3Client, bucket: str, prefix: str, lateness: timedelta) -> list[Finding]:
    """Check whether the bucket ends uploads that would be found too late. No finding if the server does not say."""
    try:
        longest = longest_upload(await client.lifecycle(bucket), prefix)
    except S3Refused as error:
        if error.failure.code != "NoSuchLifecycleConfiguration":
            return []
        longest = None
    except SourceUnavailable:
        return []
    limit = format_duration(lateness)
    missed = f"one that takes longer than lateness, {limit}, is missed"
    if longest is None:
        return [Finding.ok("uploads", f"no rule of the bucket ends unfinished uploads; {missed}")]
    after = f"the bucket ends uploads after {longest.days} days"
    if longest <= lateness:
        return [Finding.ok("uploads", f"{after}, within lateness, {limit}")]
    remedy = f"set lateness: {longest.days}d, or mode: strict, or lower the bucket's AbortIncompleteMultipartUpload"
    return [Finding.warning("uploads", f"{after}; {missed}", remedy)]


def longest_upload(lifecycle: bytes, prefix: str) -> timedelta | None:
    """The age at which unfinished uploads below `prefix` are ended, by a GetBucketLifecycleConfiguration document; None: never."""
    limits = [
        int(days[1])
        for rule in _RULE.findall(lifecycle)
        if _ENABLED.search(rule) and prefix.startswith(_prefix_of(rule)) and (days := _DAYS.search(rule))
    ]
    return timedelta(days=min(limits)) if limits else None


def _prefix_of(rule: bytes) -> str:
    match = _PREFIX.search(rule)
    return "" if match is None else html.unescape(match[1].decode())


async def survey(client: S3Client, selection: Selection, options: FileOptions) -> Finding | None:
    """Count the objects under a prefix, also where no key can match.

    Return the numbers as a finding; None if a policy allows less than the prefix. Raises `SourceUnavailable`.
    """
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
