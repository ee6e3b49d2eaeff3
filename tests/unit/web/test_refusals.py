"""A person with a browser reads no command and no word of a validator."""

from __future__ import annotations

from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, Field, ValidationError

from store.errors import no_asset, no_job, no_run, no_watcher
from watcher.features.pages.refusals import fault_in_words, refusal


class Request(BaseModel):
    zoom: Literal["day", "week"] = "day"
    before: Annotated[int, Field(ge=0, le=9)] = 0
    text: Annotated[str, Field(max_length=3)] = ""
    fold: bool = False
    most_rows: Annotated[int, Field(multiple_of=2)] = 2


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"zoom": "year"}, "zoom has to be 'day' or 'week'"),
        ({"before": "one"}, "before is not a whole number"),
        ({"before": -1}, "before has to be greater than or equal to 0"),
        ({"before": 10}, "before has to be less than or equal to 9"),
        ({"text": "long"}, "text has to have at most 3 characters"),
        ({"fold": "perhaps"}, "fold is neither true nor false"),
        ({"most_rows": 3}, "most rows has to be a multiple of 2"),
    ],
)
def test_a_fault_of_a_request(given: dict[str, object], words: str) -> None:
    with pytest.raises(ValidationError) as refused:
        Request.model_validate(given)
    [fault] = refused.value.errors()
    assert fault_in_words({**fault, "loc": ("query", *fault["loc"])}) == words


@pytest.mark.parametrize(
    ("error", "sentence", "page"),
    [
        (no_job("x"), "no job 'x'", "jobs"),
        (no_watcher("x"), "no watcher 'x'", "watchers"),
        (no_asset(7), "no asset 7", "assets"),
        (no_run("j", "r"), "the job 'j' has no run 'r'", "runs"),
    ],
)
def test_a_list_is_a_link_and_no_command(error: Exception, sentence: str, page: str) -> None:
    shown = refusal(str(error))
    assert (shown.sentence, shown.list_page) == (sentence, page)


def test_other_sentences_stay_as_they_are() -> None:
    assert refusal("landing_files is paused; resume it, then it polls").sentence.endswith("then it polls")
    assert refusal("the token is unknown; `watcher token create` makes one").list_page is None
