"""`watcher spark`: Spark on this machine."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from watcher.cli.commands import group, local_command
from watcher.cli.failures import CommandFailed, ExitCode
from watcher.cli.output import Show

spark = group("spark", "Spark on this machine.")


@local_command(spark, "archive")
def archive(
    show: Show,
    python: Annotated[str, typer.Option(help="The interpreter of the jobs; its pyspark is meant.")] = sys.executable,
    spark_home: Annotated[Path | None, typer.Option(help="The Spark, where it is another than pyspark's own.")] = None,
) -> None:
    """Create the class archive that lets jobs with `profile: small` start faster. Takes half a minute, once per Java and Spark."""
    from watcher.submit.base import SubmitError  # noqa: PLC0415
    from watcher.submit.spark import class_archive  # noqa: PLC0415  see watcher.cli
    from watcher.submit.spark.runtime import find_runtime  # noqa: PLC0415

    folder = class_archive.archive_folder(os.environ)
    try:
        runtime = find_runtime(python, None if spark_home is None else str(spark_home), os.environ)
        made = class_archive.make_archive(folder, runtime, os.environ)
    except class_archive.NoArchiveFolder as error:
        made, sentence = False, str(error)  # jobs run without, so nothing has failed
    except SubmitError as error:
        raise CommandFailed(str(error), ExitCode.FAILED) from None
    else:
        sentence = f"the class archive {'was made' if made else 'is there'}, in {folder}"
    show({"made": made, "message": sentence}, lambda: sentence)
