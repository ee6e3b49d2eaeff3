"""One file, a folder of files, and files that cannot be read at all."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from config.reading.loader import load
from config.vocabulary import Vocabulary


def test_a_folder_is_read_as_one_file(tmp_path: Path, vocabulary: Vocabulary) -> None:
    (tmp_path / "assets.yaml").write_text("version: 1\nassets: {orders: }\nsettings: {api: {port: 5}}\njobs:\n")
    (tmp_path / "jobs.yml").write_text(
        "version: 1\nassets: {more: }\nsettings: {logs: {level: error}}\n"
        "jobs: {j: {spark: {application: a.py}, schedule: [orders, more]}}\n"
    )
    (tmp_path / ".hidden.yaml").write_text("not: read")
    (tmp_path / "README.md").write_text("not: read")
    configuration = load(tmp_path, vocabulary, {})
    assert list(configuration.assets) == ["orders", "more"]
    assert (configuration.settings.api.port, configuration.settings.logs.level) == (5, "error")
    assert configuration.jobs["j"].spark.application == str(tmp_path / "a.py")
    assert configuration.folder == tmp_path


def test_a_name_in_two_files_is_reported_with_both_places(tmp_path: Path, refusal: Callable[..., list[str]]) -> None:
    (tmp_path / "a.yaml").write_text("version: 1\nassets:\n  x: {}\n")
    (tmp_path / "b.yaml").write_text("assets:\n\n  x: {grup: a}\n  y: {grup: b}\nversion: 2\n")
    assert refusal(tmp_path) == [
        "b.yaml:3: assets.x: is defined twice, first at a.yaml:3; remove or rename one of them",
        "b.yaml:4: assets.y.grup: is not a key here; did you mean `group`?",
        "b.yaml:5: version: is defined twice, first at a.yaml:1; remove or rename one of them",
    ]


def test_every_unreadable_file_of_a_folder_is_reported(tmp_path: Path, refusal: Callable[..., list[str]]) -> None:
    (tmp_path / "a.yaml").write_text("a: [b\n")
    (tmp_path / "b.yaml").write_text("")
    assert [problem.split(";")[0] for problem in refusal(tmp_path)] == [
        "a.yaml:2: is not valid YAML (while parsing a flow sequence, expected ',' or ']', but got '<stream end>')",
        "b.yaml: the file is empty",
    ]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "f.yaml: the file is empty; begin it with `version: 1`"),
        (b"# nothing\n", "f.yaml: the file is empty; begin it with `version: 1`"),
        (b"\n- a\n", "f.yaml:2: must be a mapping (`key: value`) that begins with `version: 1`"),
        (b"text", "f.yaml:1: must be a mapping (`key: value`) that begins with `version: 1`"),
        (b"\xff\xfe", "f.yaml: is not UTF-8 text; save it as UTF-8"),
        (b"a: \x01", "f.yaml: is not valid YAML (it holds a control character); remove it"),
        (b"a: " + b"[\n " * 1_000, "f.yaml: is nested too deeply; flatten it"),
    ],
)
def test_a_file_without_a_document_is_refused(
    tmp_path: Path, refusal: Callable[..., list[str]], content: bytes, sentence: str
) -> None:
    file = tmp_path / "f.yaml"
    file.write_bytes(content)
    assert refusal(file) == [sentence]


def test_a_missing_file_is_refused(tmp_path: Path, refusal: Callable[..., list[str]]) -> None:
    assert refusal(tmp_path / "f.yaml") == [
        "f.yaml: no such file; create it, or name another with --config or WATCHER_CONFIG"
    ]


def test_a_folder_without_files_is_refused(tmp_path: Path, refusal: Callable[..., list[str]]) -> None:
    (tmp_path / "conf").mkdir()
    assert refusal(tmp_path / "conf") == [
        "conf: the folder holds no *.yaml file; add one, or name another with --config or WATCHER_CONFIG"
    ]


def test_aliases_of_aliases_do_not_fill_the_memory(
    write: Callable[[str], Path], refusal: Callable[..., list[str]]
) -> None:
    """Each line makes nine of the one before: 4.8 million values in half a thousand characters."""
    lines = ["      x0: &x0 [1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"      x{n}: &x{n} [{', '.join([f'*x{n - 1}'] * 9)}]" for n in range(1, 7)]
    (sentence,) = refusal(write("assets:\n  a:\n    extra:\n" + "\n".join(lines)))
    assert sentence.endswith(
        "holds too many values through aliases (`*…`) of aliases; write them out, or leave some out"
    )


def test_a_file_of_many_values_and_one_that_repeats_some_by_aliases_are_read(
    write: Callable[[str], Path], vocabulary: Vocabulary, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = f"assets: {{a: {{extra: {{x: &x [{'1,' * 1_000}], y: [{'*x ,' * 50}]}}}}}}"
    assert load(write(shared), vocabulary, {}).assets["a"].extra["y"] == [[1] * 1_000] * 50
    monkeypatch.setattr("config.reading.document._MANY_VALUES", 100)
    many = f"assets: {{a: {{extra: {{x: [{'1,' * 1_000}]}}}}}}"
    assert load(write(many), vocabulary, {}).assets["a"].extra["x"] == [1] * 1_000


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_read_permission_is_refused(
    write: Callable[[str], Path], refusal: Callable[..., list[str]]
) -> None:
    file = write("")
    file.chmod(0)
    assert refusal(file) == ["watchers.yaml: cannot be read (Permission denied); check its permissions"]


def test_a_file_that_cannot_be_read(tmp_path: Path, refusal: Callable[..., list[str]]) -> None:
    file = tmp_path / "loop.yaml"
    file.symlink_to(file)
    assert refusal(file) == ["loop.yaml: cannot be read (Too many levels of symbolic links); check its permissions"]


def test_a_byte_order_mark_is_no_part_of_the_first_key(tmp_path: Path, vocabulary: Vocabulary) -> None:
    file = tmp_path / "watchers.yaml"
    file.write_bytes(b"\xef\xbb\xbfversion: 1\n")
    assert load(file, vocabulary, {}).assets == {}


def test_a_character_that_json_escapes_in_two_halves_is_one(
    write: Callable[[str], Path], vocabulary: Vocabulary
) -> None:
    configuration = load(write('assets: {a: {group: "\\ud83d\\ude00"}}'), vocabulary, {})
    assert configuration.assets["a"].group == "\N{GRINNING FACE}"
