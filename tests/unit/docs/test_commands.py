"""Every command on a page exists: `watcher` accepts its words, and a test runs each shell block, or a reason stands here."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import typer
from asset_watcher_heartbeat.commands import heartbeat
from typer.core import TyperGroup

from tests.pages import ROOT, shell_blocks
from watcher.cli.program import program

RUN = {
    ("README.md", 0): ".ci/run, tests/e2e/test_demo.py, tests/service/cli/test_first_hour.py",
    ("README.md", 1): "tests/service/cli/test_first_hour.py",
    ("CONTRIBUTING.md", 0): ".ci/run",
    ("docs/first-watchers.md", 0): "tests/e2e/test_first_hour.py",
    ("docs/first-watchers.md", 1): "tests/e2e/test_first_hour.py",
    ("docs/kubernetes.md", 0): "tests/container/test_chart.py",
    ("docs/kubernetes.md", 1): "tests/container/test_chart.py",
    ("docs/kubernetes.md", 2): "tests/container/test_chart.py",
    ("docs/kubernetes.md", 3): "tests/container/test_chart.py",
    ("docs/kubernetes.md", 4): "tests/container/test_chart.py",
    ("docs/writing-a-job.md", 1): "tests/service/spark/test_sdk_with_spark.py",
    ("examples/quickstart/README.md", 0): "tests/e2e/test_quickstart.py",
    ("examples/quickstart/README.md", 1): "tests/e2e/test_quickstart.py",
    ("examples/two-assets/README.md", 0): "tests/e2e/test_two_assets.py",
    ("examples/two-assets/README.md", 1): "tests/e2e/test_two_assets.py",
}
"""The test that runs each block, by page and number of the block."""
NOT_RUN = {
    ("docs/container.md", 0): "docker; tests/container builds and starts the same with podman",
    ("docs/container.md", 1): "docker; tests/container has the same flags, HARDENED",
    ("docs/postgres.md", 0): "psql and the owner of a table; tests/service/cli/test_postgres_commands.py",
    ("docs/postgres.md", 1): "a row that cannot be told; tests/service/cli/test_commands.py",
    ("docs/writing-a-job.md", 0): "an index of packages; tests/unit/sdk/test_package.py installs the SDK's wheel",
    ("docs/writing-a-store-backend.md", 0): "a Redis; tests/contract runs the suite with our own backends",
    ("docs/writing-a-submitter.md", 0): "a cluster; tests/contract runs the suite with our own submitters",
    ("docs/writing-a-trigger.md", 0): "the reader's own trigger; tests/contract runs the suites with ours",
    (
        "examples/feature/README.md",
        0,
    ): "an index of packages; tests/e2e/test_a_strangers_feature.py installs it without",
    ("examples/feature/README.md", 1): "likewise",
    ("examples/orders-from-s3/README.md", 0): "somebody's credentials; tests/e2e/test_ingest.py runs its configuration",
    ("examples/customers-from-postgres/README.md", 0): "likewise",
}
"""The blocks that no test runs, with the reason, and what tests the same."""
PAGES = sorted(
    str(page.relative_to(ROOT))
    for pattern in ("*.md", "docs/**/*.md", "examples/**/*.md")
    for page in ROOT.glob(pattern)
    if page.name != "CHANGELOG.md"
)
PROGRAM_WITH_THE_EXAMPLE = program()
PROGRAM_WITH_THE_EXAMPLE.add_typer(heartbeat)  # of examples/feature
WATCHER = typer.main.get_command(PROGRAM_WITH_THE_EXAMPLE)
INLINE = re.compile(r"(?<!`)`(watcher [a-z][^`\n]*)`(?!`)")
PROGRAM = re.compile(r"\s*(?:docker exec \S+ )?(?:\S*/)?watcher\s+(.*)")


def commands(block: str) -> list[list[str]]:
    """Return the words of each `watcher` in a shell block, also within `$(…)`, between pipes, and after `docker exec NAME`."""
    lines = block.replace("\\\n", " ").splitlines()
    parts = [part for line in lines for part in re.split(r"\$\(|[|;)]|&&", line.split(" #")[0])]
    return [shlex.split(words[1]) for part in parts if (words := PROGRAM.match(part))]


def parse(words: list[str]) -> None:
    """Parse the words as the program does, without running the command. Raise the same errors."""
    command, context, name = WATCHER, None, "watcher"
    while isinstance(command, TyperGroup):
        context = command.make_context(name, words, parent=context)
        found, command, words = command.resolve_command(context, [*context._protected_args, *context.args])
        assert command is not None
        name = str(found)
    command.make_context(name, words, parent=context)


def know(words: list[str]) -> None:
    """Check that the program has the command and the options of an inline command. Arguments may be missing or placeholders."""
    command = WATCHER
    while words and isinstance(command, TyperGroup) and not words[0].startswith("-"):
        following = [command.commands.get(name) for name in words[0].split("|")]
        assert None not in following, f"no command `{words[0]}`"
        [command, *_], words = following, words[1:]
    options = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    unknown = {word.partition("=")[0] for word in words if word.startswith("-")} - options - {"--help", "-h"}
    assert unknown == set(), f"no options {unknown}"


BLOCKS = [(page, number) for page in PAGES for number, _ in enumerate(shell_blocks(page))]


def test_each_shell_block_is_run_or_has_a_reason() -> None:
    assert sorted([*RUN, *NOT_RUN]) == sorted(BLOCKS)
    tests = {name for names in RUN.values() for name in names.split(", ")}
    assert {name for name in tests if not (ROOT / name).exists()} == set()


@pytest.mark.parametrize(("page", "number"), BLOCKS)
def test_the_program_knows_the_words_of_a_block(page: str, number: int) -> None:
    for words in commands(shell_blocks(page)[number]):
        parse(words)


@pytest.mark.parametrize("page", PAGES)
def test_the_program_knows_the_commands_named_in_a_text(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    for command in INLINE.findall(text):
        know(command.replace("[", " ").replace("]", " ").split()[1:])


def test_an_unknown_word_is_found() -> None:
    [words] = commands("export TOKEN=$(../bin/watcher token create --subject me)  # a comment\n")
    assert words == ["token", "create", "--subject", "me"]
    with pytest.raises(Exception, match="No such option: --color"):
        parse([*words, "--color", "red"])
    with pytest.raises(AssertionError, match="no command"):
        know(["tokens"])
    with pytest.raises(AssertionError, match="no options"):
        know(["runs", "list", "--everything"])


def test_every_page_is_checked() -> None:
    assert {"README.md", "docs/operating.md", "examples/quickstart/README.md"} <= set(PAGES)
    assert Path(ROOT / "docs/index.md").exists()
