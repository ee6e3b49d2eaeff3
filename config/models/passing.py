"""What reaches a driver byte for byte: the rule for arguments, Spark properties and variables of the environment.

Arguments pass through Spark's scripts, which remove every carriage return, and through the system's argument vector.
Properties pass through a file of Spark's, whose values Spark trims. Each function says, as the end of a sentence, why
a text would not arrive as it is, and what to do; None: it arrives.
"""

from __future__ import annotations

import re
from typing import Final

LONGEST: Final = 131_071
"""Most bytes of one argument, and of a variable with its name: Linux's MAX_ARG_STRLEN without the NUL at the end."""
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_TRIMMED: Final = "".join(chr(code) for code in range(0x21) if chr(code) not in "\r\n")
"""What Spark takes off both ends of a property's value (`Utils.trimExceptCRLF`)."""
_LOCALES: Final = ("LC_ALL", "LC_CTYPE")
_OVERWRITTEN: Final = re.compile(
    "BASH|BASHOPTS|BASHPID|BASH_ARGV0|BASH_COMMAND|BASH_REMATCH|BASH_SUBSHELL|BASH_VERSINFO|BASH_VERSION|COMP_WORDBREAKS|"
    "EPOCHREALTIME|EPOCHSECONDS|HISTCMD|IFS|LINENO|OLDPWD|OPTERR|OPTIND|PPID|PS1|PS2|PS4|PWD|RANDOM|SHELLOPTS|SHLVL|SRANDOM|_|"
    "ARG|_ARG|CMD|CMD_START_FLAG|COUNT|DELIM|LAST|LAUNCHER_EXIT_CODE|LAUNCH_CLASSPATH|RUNNER|PYTHONHASHSEED|"
    "SPARK_BEELINE_OPTS|SPARK_ENV_SH|SPARK_JARS_DIR|SPARK_SCALA_VERSION"
)
"""Variables that bash and Spark's scripts set for themselves, so that a job gets theirs."""


def argument_fault(text: str) -> str | None:
    if "\r" in text:
        return "contains a carriage return, which Spark's scripts remove; write it as another character, or put it into a file"
    return _vector_fault(text)


def variable_fault(name: str, text: str) -> str | None:
    if name in _LOCALES and not re.search("utf-?8", text, re.IGNORECASE):
        return "must be a locale with UTF-8, such as `C.UTF-8`, because arguments reach the driver in it; set other `LC_…` instead"
    if _OVERWRITTEN.fullmatch(name):
        return "is a variable that Spark's scripts set for themselves, so the job would get theirs; use another name"
    if not name or "=" in name:
        return "is no name of a variable; use one without `=`"
    return _vector_fault(f"{name}={text}")


def property_fault(text: str) -> str | None:
    if text != text.strip(_TRIMMED):
        return "begins or ends with blanks, which Spark removes; remove them, or set the property in the program"
    return _character_fault(text)


def _vector_fault(text: str) -> str | None:
    if fault := _character_fault(text):
        return fault
    if len(text.encode()) > LONGEST:
        return f"is longer than the {LONGEST:,} bytes that Linux passes to a program; put it into a file"
    return None


def _character_fault(text: str) -> str | None:
    if "\0" in text:
        return "contains a NUL character, which cannot be passed to a program; remove it"
    if _SURROGATE.search(text):
        return "holds half of a character (a lone surrogate); write the whole character"
    return None
