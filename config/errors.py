"""What can go wrong in a configuration, and how a place in it is written.

Exception
├── ConfigurationInvalid     the configuration was refused as a whole; carries every problem in it
└── UnknownClass             raised by a `Vocabulary` for a trigger, connection or submitter that cannot be used
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self, TypeAlias

KeyPath: TypeAlias = tuple[str | int, ...]
"""A place in the YAML: the keys and indexes that lead to it."""


def dotted(path: KeyPath) -> str:
    """`path` as people read it: `jobs.load.outlets[0]`."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One thing to correct: its place, and a sentence with the remedy. It never holds the value of a secret.

    `file` is the file as the user named it, or the environment variable that set the value. `line` is None for an
    environment variable and for a file that could not be read at all. `path` is dotted (`jobs.load.outlets[0]`), and ""
    for the file itself.
    """

    file: str
    line: int | None
    path: str
    message: str

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        return ": ".join(part for part in (place, self.path, self.message) if part)


class ConfigurationInvalid(Exception):
    """The configuration was refused; `problems` are sorted by file and line, and are never empty.

    `secrets` are the files that it names by `${file:…}`, as far as it could be read: one of them may be what has to be
    corrected.
    """

    def __init__(self, problems: Iterable[Problem], secrets: Iterable[Path] = ()) -> None:
        self.secrets = frozenset(secrets)
        self.problems = tuple(sorted(problems, key=lambda problem: (problem.file, problem.line or 0, problem.path)))
        super().__init__("\n".join(str(problem) for problem in self.problems))

    @classmethod
    def in_file(cls, file: Path, message: str, line: int | None = None) -> Self:
        """Make the error for a single problem: with `file` as a whole, or at one line of it."""
        return cls([Problem(file=str(file), line=line, path="", message=message)])


@contextmanager
def refusing_faults(file: Path) -> Iterator[None]:
    """Raise `ConfigurationInvalid` for an unexpected error, too.

    The message names only the error's type, because its text may hold a secret. The text is in `__cause__`, for the log.
    """
    try:
        yield
    except ConfigurationInvalid:
        raise
    except Exception as error:
        raise ConfigurationInvalid.in_file(
            file, f"cannot be read: reading it raised {type(error).__name__}; undo the last change"
        ) from error


class UnknownClass(Exception):
    """No usable class has this name. `sentence` says why; `suggestions` are registered names that may have been meant."""

    def __init__(self, sentence: str, suggestions: Sequence[str] = ()) -> None:
        self.sentence = sentence
        self.suggestions = tuple(suggestions)
        super().__init__(sentence)
