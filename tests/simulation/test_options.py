"""What the options of histories may not be together: the check of a configuration refuses each such pair, and names the remedy."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from config.errors import ConfigurationInvalid
from tests.simulation.options import FORBIDDEN, Choice, Options, allowed_pairs, forbidden
from watcher.configuration.foreign_classes import _NoProcesses, load_with_plugins


def written(folder: Path, options: Options) -> Path:
    for name in ("in", "done"):
        (folder / name).mkdir(parents=True)
    (folder / "job.py").touch()
    file = folder / "watcher.yaml"
    options.write(file, folder / "home", folder / "database", folder, late=["late"])
    return file


@pytest.mark.parametrize("pair", FORBIDDEN, ids=str)
def test_a_forbidden_pair_of_options_is_refused_by_a_sentence_that_names_the_remedy(
    tmp_path: Path, pair: tuple[Choice, Choice]
) -> None:
    random, values = Random(1), dict(pair)
    while forbidden(values) != [pair] or len(values) == len(pair):
        values = {**Options.drawn(random).values, **dict(pair)}
    with pytest.raises(ConfigurationInvalid) as refused:
        load_with_plugins(written(tmp_path, Options(values=values)), processes=_NoProcesses())
    assert FORBIDDEN[pair] in str(refused.value)


def test_every_other_pair_is_drawn_and_accepted(tmp_path: Path) -> None:
    missing, random, number = {*allowed_pairs()}, Random(1), 0
    while missing and number < 5_000:
        number += 1
        options = Options.drawn(random)
        if new := missing & {*options.pairs}:
            missing -= new
            load_with_plugins(written(tmp_path / str(number), options), processes=_NoProcesses())
    assert not missing
