"""What can go wrong in a configuration.

Exception
├── ConfigurationInvalid     the file was refused as a whole; carries every problem found
└── UnknownClass             raised by a `Vocabulary` for a trigger or a connection that cannot be used
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One thing to mend: where it stands and a sentence with the remedy. Never holds the value of a secret.

    `file` is the file as the user named it, or the environment variable that set the value; then, and where a file
    could not be read at all, `line` is None. `path` is dotted (`jobs.load.outlets[0]`), "" for the file itself.
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

    `secrets` are the files that it names by `${file:…}`, as far as it could be read: perhaps one of them is to be mended.
    """

    def __init__(self, problems: Iterable[Problem], secrets: Iterable[Path] = ()) -> None:
        self.secrets = frozenset(secrets)
        self.problems = tuple(sorted(problems, key=lambda problem: (problem.file, problem.line or 0, problem.path)))
        super().__init__("\n".join(str(problem) for problem in self.problems))


@contextmanager
def refusing_faults(file: Path) -> Iterator[None]:
    """What nobody thought of refuses the configuration too. Its text may hold a secret: the cause has it, for the log."""
    try:
        yield
    except ConfigurationInvalid:
        raise
    except Exception as error:
        message = f"cannot be read: this program raised {type(error).__name__} over it; undo what was changed last"
        raise ConfigurationInvalid([Problem(file=str(file), line=None, path="", message=message)]) from error


class UnknownClass(Exception):
    """No usable class has this name. `sentence` says why, `suggestions` are registered names that were perhaps meant."""

    def __init__(self, sentence: str, suggestions: Sequence[str] = ()) -> None:
        self.sentence = sentence
        self.suggestions = tuple(suggestions)
        super().__init__(sentence)
