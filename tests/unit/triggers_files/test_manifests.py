"""What a manifest names: lines and JSON, relative and absolute names, and what is no manifest."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triggers.shared.manifests import LARGEST, MOST_NAMES, BadManifest, address_of, addresses, end_matcher, parse

LOCAL, IN_BUCKET = "/data/day=1/all.manifest", "s3://lake/in/day=1/all.manifest"
SEGMENTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="/\0"), min_size=1).filter(
    lambda segment: segment not in {".", ".."}
)
PATHS = st.lists(SEGMENTS, min_size=1, max_size=4).map("/".join)


def named(content: str | bytes, manifest: str = LOCAL) -> list[str]:
    """Return the addresses of the files that a manifest names."""
    encoded = content if isinstance(content, bytes) else content.encode()
    return [*addresses(parse(encoded, manifest), manifest)]


@pytest.mark.parametrize(
    ("name", "of_local", "of_bucket"),
    [
        ("a.csv", "/data/day=1/a.csv", "s3://lake/in/day=1/a.csv"),
        ("./x/a.csv", "/data/day=1/x/a.csv", "s3://lake/in/day=1/x/a.csv"),
        ("../day=2/a.csv", "/data/day=2/a.csv", "s3://lake/in/day=2/a.csv"),
        ("x//a", "/data/day=1/x/a", "s3://lake/in/day=1/x//a"),
        ("/other/../data/b", "/data/b", "s3://lake/other/../data/b"),
        ("s3://lake/in/day=1/a b%20c", "s3://lake/in/day=1/a b%20c", "s3://lake/in/day=1/a b%20c"),
        ("S3A://other/k", "s3://other/k", "s3://other/k"),
        ("s3n://other//k", "s3://other//k", "s3://other//k"),
        ("file:///data/day=1/a%20b", "/data/day=1/a b", "/data/day=1/a b"),
        ("//data/a", "/data/a", "s3://lake//data/a"),
    ],
)
def test_a_name_is_relative_to_the_manifests_folder_or_absolute(name: str, of_local: str, of_bucket: str) -> None:
    assert named(name) == named(json.dumps([name])) == [of_local]
    assert named(name, IN_BUCKET) == named(json.dumps({"entries": [{"url": name}]}), IN_BUCKET) == [of_bucket]


def test_lines_may_have_any_end_and_spaces_around() -> None:
    assert named(b"\xef\xbb\xbfa\r\n\r\n  b\t\nc\rd e\n") == [f"/data/day=1/{name}" for name in ("a", "b", "c", "d e")]


def test_json_may_name_none_and_what_else_stands_in_it_does_not_matter() -> None:
    assert named(" [] ") == named('{"entries": [], "mandatory": 1}') == []
    redshift = {"entries": [{"url": "s3://lake/a", "mandatory": True, "meta": {"content_length": 1}}, {"url": "b"}]}
    assert named(json.dumps(redshift), IN_BUCKET) == ["s3://lake/a", "s3://lake/in/day=1/b"]


def test_a_name_counts_once() -> None:
    assert named("a\n./a\n/data/day=1/a\nfile:///data/day=1/a") == ["/data/day=1/a"]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "names no file; write \\[\\]"),
        (b"\xef\xbb\xbf \r\n\t", "names no file"),
        (b"a\n\xff\xfe", "byte 2 is not UTF-8"),
        (b'["a"', "begins like JSON, and is none"),
        (b"[" * 100_000, "begins like JSON, and is none"),
        (b"{}", "without a list `entries`"),
        (b'{"entries": {"url": "a"}}', "without a list `entries`"),
        (b'{"entries": [{"uri": "a"}]}', "each with a text `url`"),
        (b'{"entries": ["a"]}', "each with a text `url`"),
        (b'["a", 3]', "must be a text"),
        (b'[""]', "must be a text"),
        (b'["a\\u0000"]', "cannot be the name of a file"),
        (b'["a\\ud800"]', "cannot be the name of a file"),
        (b"https://host/a", "is no address of a file"),
        (b"s3://lake", "is no address of a file"),
        (b"s3:///key", "is no address of a file"),
        (b"file://host/a", "is no address of a file"),
        (b"file:///a%00", "is no address of a file"),
        (b"../../../a", "leads out of the place"),
        (b"a\n" * (MOST_NAMES + 1), "more than 10,000 names"),
        (b"a" * (LARGEST + 1), "more than 1,000,000 bytes"),
    ],
)
def test_what_is_no_manifest_is_refused_with_the_reason(content: bytes, reason: str) -> None:
    with pytest.raises(BadManifest, match=reason):
        parse(content, LOCAL)


@pytest.mark.parametrize("manifest", [LOCAL, IN_BUCKET])
@pytest.mark.parametrize(
    "name",
    ["x/", "/", "/data/x/", "../", "..", "x/..", ".", "./", "s3://lake/x/", "file:///data/x/", "file:///data/x%2F"],
)
def test_a_name_of_a_folder_names_no_file_so_the_manifest_is_refused(name: str, manifest: str) -> None:
    for content in (f"a\n{name}\r\nb", json.dumps(["a", name]), json.dumps({"entries": [{"url": name}]})):
        with pytest.raises(BadManifest, match="a folder and no file"):
            parse(content.encode(), manifest)


def test_the_limits_are_allowed() -> None:
    assert len(named("".join(f"{number}\n" for number in range(MOST_NAMES)))) == MOST_NAMES
    assert len(named(b"a" * LARGEST)[0]) > LARGEST


@given(st.lists(PATHS, min_size=1, max_size=5), st.sampled_from([LOCAL, IN_BUCKET]), st.booleans())
def test_what_an_event_names_is_what_the_manifest_names(paths: list[str], manifest: str, entries: bool) -> None:
    folder = manifest.rpartition("/")[0]
    absolute = [f"{folder}/{path}" for path in paths]
    content = {"entries": [{"url": name} for name in absolute]} if entries else absolute
    assert named(json.dumps(content), manifest) == [*dict.fromkeys(absolute)]
    assert named(json.dumps([f"./{path}" for path in paths]), manifest) == [*dict.fromkeys(absolute)]
    assert all(not name.startswith(folder) for name in parse(json.dumps(absolute).encode(), manifest))


@given(st.binary(max_size=200))
def test_any_content_is_a_manifest_or_is_refused(content: bytes) -> None:
    try:
        names = parse(content, IN_BUCKET)
    except BadManifest:
        return
    json.dumps(names).encode()
    assert all(name.startswith(("s3://", "/")) for name in addresses(names, IN_BUCKET))


def test_a_file_has_one_address_whichever_way_it_is_named() -> None:
    assert address_of({"bucket": "lake", "key": "in//a", "etag": "1"}) == "s3://lake/in//a"
    assert address_of({"path": "/conf/../data/./a"}) == address_of({"path": "/data/a", "inode": 3}) == "/data/a"
    assert address_of({}) == address_of(3) == ""


@pytest.mark.parametrize("name", ["in/day=1/all.manifest", "/in/day=1/all.manifest", "all.manifest"])
def test_a_glob_matches_the_end_of_a_name(name: str) -> None:
    assert end_matcher(["x", "*.manifest"])(name)
    assert end_matcher(["**/all.*"])(name)
    assert not end_matcher(["*.manifes"])(name)
    assert not end_matcher([])(name)
