"""The content of an object, as the version that was listed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from triggers.file_scan.versions import SECOND
from triggers.s3.clock import moment_of_date
from triggers.s3.failures import S3Refused
from triggers.s3.objects import S3Object, bare_etag
from triggers.shared.manifests import BadManifest

if TYPE_CHECKING:
    from triggers.s3.listing import S3Client

_GONE: Final = "NoSuchKey"
_ARCHIVED: Final = "InvalidObjectState"


async def content_of(client: S3Client, listed: S3Object, most: int) -> bytes | None:
    """Return the content of a listed object, or `most` + 1 bytes of a larger one. None: it is another version now, or gone.

    The response has to have the ETag that was listed; where the server lists none, the size and LastModified. Raises what
    `S3Client.read` raises, and `BadManifest` for an archived object.
    """
    try:
        headers, content = await client.read(listed.bucket, listed.key, most)
    except S3Refused as error:
        if error.failure.code == _GONE:
            return None
        if error.failure.code == _ARCHIVED:
            raise BadManifest("it is archived, and S3 does not give its content") from error
        raise
    if listed.etag:
        is_listed = bare_etag(headers.get("ETag", "").encode()) == listed.etag
    else:
        modified = moment_of_date(headers.get("Last-Modified"))
        is_listed = len(content) == listed.size and modified == listed.modified // SECOND * SECOND
    return content if is_listed else None
