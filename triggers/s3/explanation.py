"""Why an object was reported, or was not: which key an item means, and what the bucket has under it now."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from triggers.base import StoredPosition
from triggers.explanations import Explanation, cannot_tell, outside
from triggers.file_scan.options import FileOptions
from triggers.file_scan.questions.explanation import SeenFile, explain_file, missing, not_matched
from triggers.file_scan.versions import NOT_SELECTED
from triggers.s3.objects import FingerprintCache, S3Page, Selection

if TYPE_CHECKING:
    from triggers.s3.listing import S3Client

SCHEMES: Final = frozenset({"s3", "s3a", "s3n"})


def key_of(item: str, bucket: str, prefix: str) -> str | Explanation:
    """Return the key that an item means, a URL or a key; an explanation if it does not lie under the prefix (pure)."""
    scheme, separator, rest = item.partition("://")
    if not separator:
        key = item
    elif scheme.lower() not in SCHEMES:
        return outside(f"{scheme}: is no address of an S3 object")
    else:
        named, _, key = rest.partition("/")
        if named != bucket:
            return outside(f"it lies in the bucket {named}, and the watcher watches {bucket}")
    if not key.startswith(prefix) or not key:
        return outside(f"its key does not begin with the watcher's prefix {prefix!r}")
    return key


def named(item: str, bucket: str, prefix: str) -> Explanation:
    """Return how events name the object that an item means (pure)."""
    key = key_of(item, bucket, prefix)
    return key if isinstance(key, Explanation) else replace(cannot_tell(item), name=key)


async def explain_object(
    client: S3Client, selection: Selection, options: FileOptions, item: str, position: StoredPosition | None
) -> Explanation:
    """Ask the bucket for the one key. Raises `S3Refused` or `SourceUnavailable`."""
    key = key_of(item, selection.bucket, selection.prefix)
    if isinstance(key, Explanation):
        return key
    named_object = named(item, selection.bucket, selection.prefix)
    if (unmatched := not_matched(key[len(selection.prefix) :], named_object, options)) is not None:
        return unmatched
    listed, reading = await client.list_page(selection.bucket, key, None, max_keys=1)
    if not listed.rows or listed.key_bytes(listed.rows[0]) != key.encode():
        return missing(named_object)
    page = S3Page(listed=listed, reading=reading, selection=selection, cache=FingerprintCache())
    [fingerprint, *_] = page.fingerprints()
    seen = SeenFile(
        version=page.version(0, fingerprint),
        size=int(listed.rows[0][3]),
        clock=page.clock,
        is_selected=fingerprint != NOT_SELECTED,
    )
    return explain_file(seen, named_object, options, position)
