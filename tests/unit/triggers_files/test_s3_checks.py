from __future__ import annotations

from datetime import timedelta

import pytest

from triggers.s3.checks import longest_upload


def rule(days: int | None, *, prefix: str = "", status: str = "Enabled") -> str:
    abort = (
        ""
        if days is None
        else (
            f"<AbortIncompleteMultipartUpload><DaysAfterInitiation>{days}</DaysAfterInitiation></AbortIncompleteMultipartUpload>"
        )
    )
    return f"<Rule><ID>r</ID><Filter><Prefix>{prefix}</Prefix></Filter><Status>{status}</Status>{abort}</Rule>"


@pytest.mark.parametrize(
    ("rules", "days"),
    [
        ([], None),
        ([rule(7)], 7),
        ([rule(7), rule(3)], 3),
        ([rule(None)], None),
        ([rule(7, status="Disabled")], None),
        ([rule(7, prefix="in/")], 7),
        ([rule(7, prefix="in/a&amp;b/")], 7),
        ([rule(7, prefix="out/")], None),
        ([rule(7, prefix="in/a&amp;b/deeper/")], None),
        (["<Rule><Prefix>in/</Prefix><Status>Enabled</Status></Rule>", rule(2)], 2),
    ],
)
def test_the_longest_upload_that_a_bucket_allows(rules: list[str], days: int | None) -> None:
    document = f"<LifecycleConfiguration>{''.join(rules)}</LifecycleConfiguration>".encode()
    assert longest_upload(document, "in/a&b/") == (None if days is None else timedelta(days=days))
