"""The program, put together from its parts. Of a command that is named, only the part that has it is imported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

import typer

from watcher.cli.failures import Commands, ExitCode
from watcher.errors import FeatureUnusable
from watcher.feature import Path
from watcher.installed import Installed, installed, resolve

ORDER: Final = (
    *("demo", "init", "schema", "check", "run", "open"),
    *("status", "explain", "reconcile", "logs", "poll", "watchers", "assets", "jobs", "runs", "store"),
    *("pause", "resume", "rewind", "replay", "rejected", "reload"),
    *("token", "sign-in-link", "db", "state-store", "spark", "pg", "kubernetes"),
)
"""The order in which `watcher --help` shows the commands of a group; others follow these."""
HELP_GROUPS: Final[Mapping[str, str]] = {
    "start": "Start",
    "look": "Look",
    "act": "Act",
    "operate": "Operate",
}
"""The groups of `watcher --help`, in their order. A feature says in which its commands are; without a word it is the last."""
_OF_KERNEL: Final = {"run": "start", "db": "operate", "state-store": "operate"}
_WORD_WIDTH: Final = 14
_FOOTER: Final = """\
`watcher COMMAND --help` says more about one; --version prints the version, and
--install-completion lets the shell complete commands. Exit codes: 0 done;
1 failed, or nobody answers; 2 wrong words or a wrong configuration; 3 a source
is wrong; 4 not found; 5 refused now; 6 `status`: all is not well; 130 Ctrl-C.
"""


_OTHER_WORDS: Final[Mapping[tuple[str, str], tuple[str, ...]]] = {
    **{("watchers", word): (word,) for word in ("pause", "resume", "poll", "logs", "rewind", "reconcile", "explain")},
    **{("jobs", word): ("runs", word) for word in ("start", "retry", "cancel", "logs")},
    **{("runs", word): ("runs", "retry") for word in ("clear", "rerun")},
    ("jobs", "replay"): ("replay",),
    ("jobs", "runs"): ("runs", "list"),
}
"""Commands where people look for them, by the group and the word; they are accepted, and no page names them."""


def meant(words: Sequence[str]) -> Sequence[str]:
    """Return the words of a command by the names that it has."""
    return [*_OTHER_WORDS.get((words[0], words[1]), words[:2]), *words[2:]] if len(words) > 1 else words


class _CommandTree(Commands):
    """The program's own group, which accepts commands by other words, too."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args and not ctx.resilient_parsing:
            typer.echo(ctx.get_help())
            ctx.exit(ExitCode.USAGE)
        return super().parse_args(ctx, [*meant(args)])

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write a screen: each command in one line, with the first sentence of its help."""
        formatter.write(f"{ctx.get_usage()}\n{self.help}\n")
        group_of = _help_groups(installed())
        for group, heading in HELP_GROUPS.items():
            words = [word for word in commands() if group_of.get(word, "operate") == group]
            formatter.write(typer.style(f"{heading}\n", bold=True))
            for word in words:
                first_sentence, _, _ = (self.commands[word].help or "").partition(". ")
                formatter.write(f"  {word:<{_WORD_WIDTH}}{first_sentence.rstrip('.')}\n")
        formatter.write(f"\n{_FOOTER}")


def _help_groups(features: Installed) -> Mapping[str, str]:
    """Return the group of each command that says one."""
    return _OF_KERNEL | {word: group for each in features.features for word, group in each.help_groups.items()}


def _version(requested: bool) -> None:
    if requested:
        from watcher.host.machine import program_version  # noqa: PLC0415  see watcher.cli

        typer.echo(program_version())
        raise typer.Exit


def program(words: Sequence[str] = ()) -> typer.Typer:
    """Return the program with the commands that begin with the first of `words`; with all of them, if none does."""
    app = typer.Typer(
        name="watcher",
        cls=_CommandTree,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    @app.callback()
    def watcher(
        _: Annotated[
            bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
        ] = False,
    ) -> None:
        """New files and new rows, each exactly once, to PySpark jobs."""

    words = meant(words)
    try:
        paths = commands(words)
        chosen = [paths[words[0]]] if words and words[0] in paths else paths.values()
        for path, *more in dict.fromkeys(chosen):
            app.add_typer(_extended(_group(path), [_group(each) for each in more]))
    except FeatureUnusable as error:
        typer.echo(str(error), err=True)
        raise SystemExit(ExitCode.USAGE) from None
    return app


def _extended(group: typer.Typer, more: Sequence[typer.Typer]) -> typer.Typer:
    """Return the group with the commands of others. None of them changes: they are imported once, for all programs."""
    if not more:
        return group
    extended = typer.Typer(name=group.info.name, help=group.info.help, cls=group.info.cls, no_args_is_help=True)
    extended.registered_commands = [command for each in (group, *more) for command in each.registered_commands]
    return extended


def _group(path: Path) -> typer.Typer:
    """Return a group of commands. Raises `FeatureUnusable` for one of another distribution that cannot be imported."""
    try:
        group: typer.Typer = resolve(path)
    except Exception as error:
        if any(path in paths for paths in _paths(installed()).values()):
            raise
        raise FeatureUnusable(f"`{path}` cannot be imported ({error}); correct the feature that names it") from error
    return group


def commands(words: Sequence[str] = ()) -> Mapping[str, Sequence[Path]]:
    """Return all commands by their first word, those of the features that come with the daemon among them.

    The first path of a word is the group's or the command's, others add commands to the group.

    Those of another distribution's features are there if `words` begin with something else: the configuration that `words` or
    the environment name is read for them.
    """
    paths = _paths(installed())
    if words and not words[0].startswith("-") and words[0] not in paths:
        paths = _paths(installed(_named_features(words)))
    return {word: paths[word] for word in (*filter(paths.__contains__, ORDER), *sorted(paths.keys() - {*ORDER}))}


def _paths(features: Installed) -> Mapping[str, Sequence[Path]]:
    more = [each.more_commands for each in features.features]
    return {
        word: (path, *(extension[word] for extension in more if word in extension))
        for word, path in features.words("commands").items()
    }


def _named_features(words: Sequence[str]) -> tuple[str, ...]:
    """Return the features that the configuration names; none if it cannot be read, which the command itself reports."""
    from config.errors import ConfigurationInvalid  # noqa: PLC0415  see watcher.cli
    from watcher.cli.commands import configuration_file, load_settings  # noqa: PLC0415

    try:
        return load_settings(configuration_file(words)).features
    except ConfigurationInvalid:
        return ()
