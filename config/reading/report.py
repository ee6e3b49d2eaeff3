"""Collects the problems of a document while its parts are validated one by one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Self, TypeVar

from pydantic import BaseModel, ValidationError

from config.errors import ConfigurationInvalid, KeyPath, UnknownClass
from config.models.reserved import not_built, without_reserved
from config.models.settings import Settings, SettingsOf
from config.names import Scope, check_name, did_you_mean
from config.reading.document import Document, read
from config.reading.interpolation import Interpolation, override_settings
from config.reading.sources import folder_of
from config.sentences import MISSING, instead, sentences
from config.vocabulary import Checked, ForeignModel

ModelT = TypeVar("ModelT", bound=BaseModel)
KindT = TypeVar("KindT")


def checked(model: type[ModelT], data: Any, path: KeyPath, scope: Scope | None) -> Checked[ModelT]:
    """Validate `data`, which stands at `path` of the document, as a `model`."""
    data, faults = without_reserved(model, data, path)
    try:
        value = model.model_validate(data, context=scope)
        if model.model_config.get("frozen"):
            object.__setattr__(value, "__pydantic_fields_set__", _shared(frozenset(value.model_fields_set)))
        return Checked(value=value, data=data, faults=faults)
    except ValidationError as error:
        faults += sentences(error, model, data)
    except Exception as error:  # noqa: BLE001  a plug-in's validators may raise anything; its text may hold a secret
        class_name = f"{model.__module__}.{model.__qualname__}"
        faults.append(((), f"cannot be checked: `{class_name}` raised {type(error).__name__}; correct the class"))
    return Checked(value=None, data=data, faults=faults)


@cache
def _shared(keys: frozenset[str]) -> set[str]:
    """One set for all models that were given the same keys. It can be shared because nobody adds to the keys of a frozen model."""
    return {*keys}


class Report:
    """Adds to the document's problems. It reports one problem for each place, and no value that came from outside."""

    def __init__(self, document: Document, interpolation: Interpolation) -> None:
        self.document = document
        self.interpolation = interpolation
        self.unavailable: Mapping[str, str] = {}
        """The features that `settings.features` names and that cannot be used, each with a sentence."""
        self._reported = {problem.path for problem in document.problems}

    @classmethod
    def of(cls, path: Path, environ: Mapping[str, str], *, section: str | None = None) -> Self:
        """Read the file or folder `path`, or one `section` of it, and put in the values from outside.

        Raises `ConfigurationInvalid` if it cannot be read.
        """
        document = read(path)
        override_settings(document, environ)
        if section is not None:
            document.data = {section: document.data.get(section)}
            document.problems = [
                problem for problem in document.problems if problem.path.split(".")[0] in {"", section}
            ]
        interpolation = Interpolation(environ, folder_of(path))
        document.data = interpolation.expand(document.data)
        report = cls(document, interpolation)
        for place, sentence in interpolation.problems:
            report.add(place, sentence)
        return report

    def refuse_problems(self) -> None:
        """Raise `ConfigurationInvalid` if there are any problems."""
        if self.document.problems:
            raise ConfigurationInvalid(self.document.problems, self.interpolation.files)

    def add(self, path: KeyPath, sentence: str) -> None:
        sentence = not_built(path, self.document.data, sentence)
        problem = self.document.problem(path, self.interpolation.hide(sentence, path))
        if problem.path not in self._reported:
            self._reported.add(problem.path)
            self.document.problems.append(problem)

    def look_up(self, kinds: Callable[[str], KindT], name: str, path: KeyPath) -> KindT | None:
        """What the vocabulary has for the `name` at `path`, or None if it has nothing, which is reported."""
        try:
            return kinds(name)
        except UnknownClass as error:
            hint = f"; {did_you_mean(name, error.suggestions)}" if error.suggestions else ""
            self.add(path, error.sentence + hint)
        return None

    def place(self, path: KeyPath) -> str:
        """File and line of `path`."""
        return str(self.document.locate(path))

    def check_name(self, name: str, path: KeyPath) -> None:
        try:
            check_name(name)
        except ValueError as error:
            self.add(path, str(error))

    def is_mapping(self, value: Any, path: KeyPath) -> bool:
        if not isinstance(value, dict):
            self.add(path, f"must be a mapping (`key: value`){instead(value)}")
        return isinstance(value, dict)

    def validate_settings(self, settings_of: SettingsOf, given: Mapping[str, Any], scope: Scope) -> Settings | None:
        """Validate the `settings` section, with the keys of the features that it names; None if it has problems."""
        named = given.get("features")
        names = tuple(filter(lambda name: isinstance(name, str), named)) if isinstance(named, list) else ()
        try:
            known = settings_of(names)
        except UnknownClass as error:
            self.add(("settings", "features"), error.sentence)
            known = settings_of(())
        self.unavailable = known.unavailable
        return self.validate(known.model, known.without_unavailable(given), ("settings",), scope)

    def validate(
        self, model: type[ModelT], data: Any, path: KeyPath, scope: Scope | None = None, *, complete: bool = True
    ) -> ModelT | None:
        """Validate `data` at `path` as a `model`; None if it has problems. A missing key counts only if `data` is `complete`."""
        return self._add_all(checked(model, data, path, scope), path, complete=complete)

    def validate_any(
        self,
        model: type[BaseModel] | ForeignModel,
        data: Any,
        path: KeyPath,
        scope: Scope,
        *,
        complete: bool = True,
        missing: Callable[[str], str | None] = lambda _key: None,
    ) -> BaseModel | None:
        """Validate like `validate`, but the model may be one of a plug-in that this process does not import.

        `missing` may have a better sentence for a missing key.
        """
        if isinstance(model, type):
            return self._add_all(checked(model, data, path, scope), path, complete=complete, missing=missing)
        return self._add_all(model.check(data, path, scope.folder), path, complete=complete, missing=missing)

    def _add_all(
        self,
        outcome: Checked[ModelT],
        path: KeyPath,
        *,
        complete: bool,
        missing: Callable[[str], str | None] = lambda _key: None,
    ) -> ModelT | None:
        for place, sentence in outcome.faults:
            if sentence != MISSING:
                self.add((*path, *place), sentence)
            elif complete:
                self.add((*path, *place), missing(str(place[-1])) or sentence)
        return outcome.value
