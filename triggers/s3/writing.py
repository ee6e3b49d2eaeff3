"""Whether an object can be written and removed, for those who check a target before a job writes there."""

from __future__ import annotations

from triggers.s3.aws import CredentialSource, S3Settings, aws_errors


async def probe_writing(connection: S3Settings, bucket: str, key: str) -> None:
    """Write an empty object and remove it. Raises `S3Refused` or `SourceUnavailable`."""
    remedy = "let the connection's identity put and delete objects there, or correct the target"
    credentials = CredentialSource(connection)
    with aws_errors(remedy=remedy):
        async with credentials.client("s3", region=connection.region, endpoint_url=connection.endpoint_url) as client:
            await client.put_object(Bucket=bucket, Key=key, Body=b"")
            await client.delete_object(Bucket=bucket, Key=key)
