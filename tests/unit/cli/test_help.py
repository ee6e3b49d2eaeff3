"""`watcher --help` is one screen in four groups, and each feature says in which its commands are."""

from __future__ import annotations

import re

import pytest
from typer.testing import CliRunner

from watcher.cli.app import app
from watcher.cli.program import HELP_GROUPS, commands, program
from watcher.installed import installed

pytestmark = pytest.mark.feature("commands")

MOST_LINES, MOST_COLUMNS, MOST_OF_A_GROUP = 40, 80, 10


def shown(*words: str) -> str:
    return CliRunner().invoke(app, [*words]).output


@pytest.mark.parametrize("words", [("--help",), ("-h",), ()], ids=str)
def test_help_is_a_screen(words: tuple[str, ...]) -> None:
    lines = shown(*words).splitlines()
    assert len(lines) <= MOST_LINES
    assert max(map(len, lines)) < MOST_COLUMNS
    assert lines[0].startswith("Usage: ")


def test_each_command_is_in_one_of_four_groups_of_at_most_ten_lines() -> None:
    text = shown("--help").partition("\n\n")[0]
    groups = re.split(rf"^({'|'.join(HELP_GROUPS.values())})\n", text, flags=re.MULTILINE)[1:]
    words = {groups[place]: re.findall(r"^  (\S+)  +\S", groups[place + 1], re.MULTILINE) for place in range(0, 8, 2)}
    assert [*words] == ["Start", "Look", "Act", "Operate"]
    assert all(0 < len(of_group) <= MOST_OF_A_GROUP for of_group in words.values())
    assert sorted(word for of_group in words.values() for word in of_group) == sorted(commands())


def test_each_feature_says_in_which_group_its_commands_are() -> None:
    for feature in installed().features:
        assert feature.help_groups.keys() == feature.commands.keys(), feature.name
        assert set(feature.help_groups.values()) <= HELP_GROUPS.keys()


@pytest.mark.feature("replay")
def test_what_help_leaves_out_is_behind_the_command() -> None:
    assert "--preview" not in shown("--help")
    assert "--preview" in shown("replay", "--help")
    assert "--preview" in CliRunner().invoke(program(("jobs", "replay")), ["jobs", "replay", "--help"]).output
