"""Pages as AWS, MinIO and moto send them, whole and broken."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import quote, quote_plus
from xml.sax.saxutils import escape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triggers.errors import SourceUnavailable
from triggers.file_scan.matching import Matcher
from triggers.file_scan.versions import NOT_SELECTED, parse_moment
from triggers.s3.clock import ClockReading
from triggers.s3.failures import S3Refused
from triggers.s3.objects import FingerprintCache, S3Object, S3Page, Selection
from triggers.s3.pages import modified_at, scan_page

STAMP = "2026-11-20T09:00:00.000Z"

AWS = b"""<?xml version="1.0" encoding="UTF-8"?>
<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>landing</Name><Prefix>orders/</Prefix>\
<StartAfter>orders/0</StartAfter><KeyCount>2</KeyCount><MaxKeys>1000</MaxKeys><EncodingType>url</EncodingType>\
<IsTruncated>true</IsTruncated><NextContinuationToken>1ueGcx/+==</NextContinuationToken>\
<Contents><Key>orders/a+b%2Bc.json</Key><LastModified>2026-11-20T09:00:00.000Z</LastModified>\
<ETag>&quot;9336ebf25087d91c818ee6e9ec29f8c1-2&quot;</ETag><ChecksumAlgorithm>CRC64NVME</ChecksumAlgorithm>\
<ChecksumType>FULL_OBJECT</ChecksumType><Size>12</Size><Owner><ID>abc</ID></Owner><StorageClass>STANDARD</StorageClass></Contents>\
<Contents><Key>orders/b.json</Key><LastModified>2026-11-20T09:00:01.000Z</LastModified>\
<ETag>&quot;9336ebf25087d91c818ee6e9ec29f8c1&quot;</ETag><Size>0</Size><StorageClass>GLACIER</StorageClass>\
<RestoreStatus><IsRestoreInProgress>false</IsRestoreInProgress></RestoreStatus></Contents></ListBucketResult>"""

MOTO = b"""<?xml version="1.0" encoding="utf-8"?>
<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><IsTruncated>false</IsTruncated><Contents>\
<Key>a%20b%2Bc</Key><LastModified>2026-11-20T10:21:16.000Z</LastModified><ETag>"9336ebf25087d91c818ee6e9ec29f8c1"</ETag>\
<ChecksumAlgorithm>CRC32</ChecksumAlgorithm><Size>2</Size><StorageClass>STANDARD</StorageClass></Contents>\
<Name>bucket</Name><Prefix/><MaxKeys>1000</MaxKeys><EncodingType>url</EncodingType><KeyCount>1</KeyCount></ListBucketResult>"""

REORDERED = b"""<ListBucketResult><Contents>
  <Size>7</Size><StorageClass>STANDARD</StorageClass>
  <ETag>"e"</ETag><LastModified>2026-11-20T09:00:00Z</LastModified><Owner><ID>Key</ID></Owner><Key>x&amp;y</Key>
</Contents><IsTruncated>false</IsTruncated></ListBucketResult>
"""


def body(*objects: bytes, truncated: bool = False, encoding: str = "<EncodingType>url</EncodingType>") -> bytes:
    flag = f"<IsTruncated>{str(truncated).lower()}</IsTruncated>{encoding}".encode()
    return b"<ListBucketResult>" + flag + b"".join(objects) + b"</ListBucketResult>"


def contents(key: str, *, stamp: str = STAMP, size: int = 1, etag: str = "e") -> bytes:
    return (
        f"<Contents><Key>{key}</Key><LastModified>{stamp}</LastModified><ETag>&quot;{etag}&quot;</ETag>"
        f"<Size>{size}</Size></Contents>"
    ).encode()


def page(shown: bytes, **options: Any) -> S3Page:
    matcher = Matcher.of(match=options.pop("match", None), regex=options.pop("regex", None))
    wanted = {"prefix": "", "min_size": 0, "directory_markers": False, **options}
    selection = Selection(bucket="landing", matcher=matcher, **wanted)
    return S3Page(
        listed=scan_page(shown), reading=ClockReading(moment=0), selection=selection, cache=FingerprintCache()
    )


def described(shown: bytes, **options: Any) -> list[Any]:
    return [version.describe() for version in page(shown, **options).versions(None)]


def keys(shown: bytes, **options: Any) -> list[str]:
    return [version["key"] for version in described(shown, **options)]


def test_a_page_of_aws() -> None:
    assert described(AWS) == [
        {
            "bucket": "landing",
            "key": "orders/a b+c.json",
            "size": 12,
            "etag": "9336ebf25087d91c818ee6e9ec29f8c1-2",
            "last_modified": "2026-11-20T09:00:00Z",
        },
        {
            "bucket": "landing",
            "key": "orders/b.json",
            "size": 0,
            "etag": "9336ebf25087d91c818ee6e9ec29f8c1",
            "last_modified": "2026-11-20T09:00:01Z",
        },
    ]
    assert page(AWS).last == "orders/b.json"


def test_a_page_of_moto() -> None:
    assert keys(MOTO) == ["a b+c"]
    assert page(MOTO).last is None


def test_elements_in_another_order_and_an_encoding_the_server_ignored() -> None:
    (found,) = described(REORDERED)
    assert (found["key"], found["size"], found["etag"]) == ("x&y", 7, "e")


def test_an_empty_page() -> None:
    assert described(body()) == []
    assert page(body()).last is None


@pytest.mark.parametrize("cut", range(1, len(MOTO.rstrip())))
def test_a_page_cut_anywhere_is_refused(cut: int) -> None:
    with pytest.raises(SourceUnavailable):
        scan_page(MOTO[:-cut])


@pytest.mark.parametrize(
    "broken",
    [
        b"",
        b"<html><body>console</body></html>",
        b"<Error><Code>InternalError</Code></Error>",
        AWS.replace(b"<IsTruncated>true</IsTruncated>", b""),
        AWS.replace(b"<Size>12</Size>", b"<Size>twelve</Size>"),
        AWS.replace(b"<Key>orders/b.json</Key>", b""),
        AWS.replace(b"<Contents>", b"<Contents><Contents>", 1),
    ],
)
def test_an_incomplete_page_is_refused(broken: bytes) -> None:
    with pytest.raises(SourceUnavailable):
        scan_page(broken)


def test_a_wrong_time_is_refused() -> None:
    for stamp in ("yesterday", "2026-11-20T09:00:0x.000Z", "\xff"):
        with pytest.raises(SourceUnavailable):
            keys(body(contents("a", stamp=stamp)))


def test_a_key_that_is_not_utf8_is_refused() -> None:
    with pytest.raises(SourceUnavailable, match="not UTF-8"):
        keys(body(contents("%FF")))


@pytest.mark.parametrize(
    "stamp",
    ["2026-11-20T09:00:01Z", "2026-11-20T09:00:01.000Z", "2026-11-20T09:00:01.000000Z", "2026-11-20T10:00:01+0100"],
)
def test_times_of_all_forms_compare_as_moments(stamp: str) -> None:
    shown = page(body(contents("a", stamp=stamp)))
    moment = parse_moment("2026-11-20T09:00:01Z")
    assert modified_at(stamp.encode()) == moment
    assert len([*shown.versions(moment)]) == 1
    assert len([*shown.versions(moment - 1)]) == 1
    assert [*shown.versions(moment + 1)] == []


def test_markers_and_small_objects_are_not_selected_by_default() -> None:
    shown = body(
        contents("d/", size=0), contents("d/big", size=10), contents("d/empty", size=0), contents("e/", size=3)
    )
    assert keys(shown) == ["d/big", "d/empty", "e/"]
    assert keys(shown, directory_markers=True) == ["d/", "d/big", "d/empty", "e/"]
    assert keys(shown, min_size=4) == ["d/big"]


def test_the_fingerprints_of_a_page_mark_what_is_not_selected() -> None:
    shown = body(contents("a.json"), contents("b.txt"), contents("c%20d.json", size=5))
    wanted = page(shown, match="*.json")
    fingerprints = wanted.fingerprints()
    assert [*fingerprints[::2]] == [version.fingerprint for version in wanted.versions(None)]
    assert fingerprints[1] == NOT_SELECTED
    assert wanted.version(2, fingerprints[2]).describe() == [*wanted.versions(None)][1].describe()
    assert len(wanted) == 3


def test_a_match_applies_to_the_key_after_the_prefix() -> None:
    shown = body(contents("orders/a.json"), contents("orders/x/b.json"), contents("orders/c.txt"))
    assert keys(shown, prefix="orders/", match="*.json") == ["orders/a.json"]
    assert keys(shown, prefix="orders/", match="**/*.json") == ["orders/a.json", "orders/x/b.json"]
    assert keys(shown, prefix="orders/", regex="^x/") == ["orders/x/b.json"]


def test_the_fingerprint_is_fixed_for_ever() -> None:
    """Stored positions hold the fingerprint: another value would repeat every file of the window."""
    (version,) = page(body(contents("orders/a%20b.json", etag="abc"))).versions(None)
    assert version.fingerprint == -6066840187468247701
    assert version.aliases == (6807548650917892554,), "up to format 2"


def test_the_fingerprint_is_the_same_however_a_server_writes_an_object() -> None:
    def of(shown: bytes) -> int:
        (version,) = page(shown).versions(None)
        return version.fingerprint

    same = [
        body(contents("a+%2B")),
        body(contents("a%20%2b", stamp="2026-11-20T09:00:00Z")),
        body(contents("a +"), encoding=""),
        body(contents("a +").replace(b"&quot;", b'"'), encoding=""),
        body(contents("a+%2B").replace(b"&quot;", b"&#34;")),
    ]
    assert len({of(shown) for shown in same}) == 1
    others = [
        body(contents("a")),
        body(contents("a+%2B", etag="f")),
        body(contents("a+%2B", stamp="2026-11-20T09:00:01.000Z")),
    ]
    assert len({of(shown) for shown in same[:1] + others}) == 4


KEYS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30)
XML_KEYS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=30)
OBJECTS = st.tuples(st.integers(0, 2**40), st.datetimes().map(lambda time: time.replace(microsecond=0)), st.uuids())


@given(st.lists(st.tuples(KEYS, OBJECTS), max_size=8), st.sampled_from([quote, quote_plus]), st.booleans())
def test_any_page_is_read_as_it_was_meant(
    objects: list[tuple[str, tuple[int, Any, Any]]], encode: Callable[[str], str], reverse: bool
) -> None:
    shown = []
    for key, (size, time, etag) in objects:
        fields = [
            f"<Key>{encode(key)}</Key>",
            f"<LastModified>{time.isoformat()}.000Z</LastModified>",
            f'<ETag>"{etag}"</ETag>',
            f"<Size>{size}</Size>",
        ]
        shown.append(f"<Contents>{''.join(fields[::-1] if reverse else fields)}</Contents>".encode())
    read = [
        (version["key"], version["size"], version["etag"], parse_moment(version["last_modified"]))
        for version in described(body(*shown), directory_markers=True)
    ]
    assert read == [(key, size, str(etag), parse_moment(time.isoformat())) for key, (size, time, etag) in objects]


@given(XML_KEYS)
def test_a_key_that_a_server_does_not_encode_is_read_as_xml(key: str) -> None:
    assert keys(body(contents(escape(key)), encoding="")) == [key]


def test_an_object_is_no_larger_than_its_fields() -> None:
    """A first scan makes an object of this class for each listed one."""
    version = S3Object((b"k", STAMP.encode(), b'"e"', b"1"), 7, bucket="landing", url_encoded=True)
    assert not hasattr(version, "__dict__")


def test_a_truncated_page_ends_with_a_key_that_is_text() -> None:
    page = scan_page(body(contents("a"), contents("b%FF"), contents("c"), contents("d%FF"), truncated=True))
    assert [page.key_bytes(row) for row in page.rows] == [b"a", b"b\xff", b"c"]
    assert page.last == "c"
    with pytest.raises(S3Refused, match="no page can be asked for behind them"):
        _ = scan_page(body(contents("b%FF"), truncated=True)).last


def test_an_object_whose_key_is_not_text_is_listed_beside_the_others() -> None:
    [good, bad] = page(body(contents("a"), contents("b%FF"))).versions(None)
    assert (good.key, good.fault) == ("a", None)
    assert bad.key == "b\\xff"
    assert bad.fault is not None
