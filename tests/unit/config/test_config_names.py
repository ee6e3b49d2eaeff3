"""The names that code outside of config/ imports."""

from __future__ import annotations

from importlib import import_module

import pytest

from config import models


@pytest.mark.parametrize("name", models.__all__)
def test_the_package_of_the_models_has_the_objects_of_its_modules(name: str) -> None:
    home = import_module(f"config.models.{models._MODULES[name]}")
    assert getattr(models, name) is getattr(home, name)


def test_the_package_of_the_models_has_no_other_names() -> None:
    assert models._MODULES.keys() == {*models.__all__}
    with pytest.raises(AttributeError, match="has no attribute 'JobsConfig'"):
        _ = models.JobsConfig
    with pytest.raises(ImportError):
        import_module("config.models.nothing")


@pytest.mark.parametrize("path", ["errors.ConfigurationInvalid", "errors.UnknownClass", "vocabulary.Vocabulary"])
def test_public_names_stay_where_they_are(path: str) -> None:
    module, name = path.split(".")
    assert isinstance(getattr(import_module(f"config.{module}"), name), type)
