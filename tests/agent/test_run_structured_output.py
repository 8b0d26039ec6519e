"""The final answer in a form."""

import dataclasses
import datetime
from collections.abc import Callable
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator, BaseModel, Field

from wholecall.agent.run import AnyText, TypedOutput
from wholecall.errors import UnusableFunction
from wholecall.tools.tool import to_result


class City(BaseModel):
    name: str
    people: int = Field(ge=0)


@dataclasses.dataclass
class Pair:
    left: City
    right: City


def test_without_a_form_the_text_is_the_answer() -> None:
    assert AnyText().read("Hello") == ("Hello", "")
    assert AnyText().schema is None


@pytest.mark.parametrize(
    ("form", "text", "value"),
    [
        (City, '{"name": "Oslo", "people": 7}', City(name="Oslo", people=7)),
        (City, '```json\n{"name": "Oslo", "people": "7"}\n```', City(name="Oslo", people=7)),
        (list[int], '{"value": [1, 2]}', [1, 2]),
        (list[City], '{"value": [{"name": "Oslo", "people": 7}]}', [City(name="Oslo", people=7)]),
        (
            Pair,
            '{"left": {"name": "A", "people": 1}, "right": {"name": "B", "people": 2}}',
            Pair(City(name="A", people=1), City(name="B", people=2)),
        ),
        (int, '{"value": 5}', 5),
    ],
)
def test_an_answer_in_its_form_becomes_a_value(form: Any, text: str, *, value: object) -> None:
    assert TypedOutput(form).read(text) == (value, "")


@pytest.mark.parametrize(
    ("form", "text", "words"),
    [
        (City, "It is Oslo.", "must be one JSON object"),
        (City, '{"name": "Oslo"}', "$.people"),
        (City, '{"name": "Oslo", "people": -1}', "$.people"),
        (City, '{"name": "Os', "must be one JSON object"),
        (
            Annotated[int, AfterValidator(lambda _: (_ for _ in ()).throw(ValueError("odd")))],
            '{"value": 5}',
            "odd",
        ),
    ],
)
def test_what_is_wrong_is_said_in_words(form: Any, text: str, *, words: str) -> None:
    value, wrong = TypedOutput(form).read(text)
    assert value is None
    assert words in wrong
    assert "again" in wrong


def test_the_schema_goes_to_the_upstream() -> None:
    assert TypedOutput(City).schema is not None
    wrapped = TypedOutput(list[City]).schema
    assert wrapped is not None
    assert wrapped.schema["required"] == ["value"]
    assert "City" in wrapped.schema["$defs"]


def test_a_type_without_a_schema_is_refused() -> None:
    with pytest.raises(UnusableFunction, match="no JSON schema"):
        TypedOutput(Callable[[int], int])


@pytest.mark.parametrize(
    ("form", "given", "value"),
    [
        (City, {"name": "Oslo", "people": 7}, City(name="Oslo", people=7)),
        (City, City(name="Oslo", people=7), City(name="Oslo", people=7)),
        (City, '{"name": "Oslo", "people": "7"}', City(name="Oslo", people=7)),
        (list[int], [1, 2], [1, 2]),
        (list[int], '{"value": [1, 2]}', [1, 2]),
        (str, "Oslo", "Oslo"),
        (datetime.date, datetime.date(2026, 1, 2), datetime.date(2026, 1, 2)),
        (City, {"name": "Oslo"}, None),
        (City, "Oslo", None),
        (City, None, None),
    ],
    ids=str,
)
def test_what_a_tool_gave_becomes_a_value_if_it_fits(
    form: Any, given: object, *, value: object
) -> None:
    assert TypedOutput(form).take(to_result(given)) == value


def test_without_a_form_a_tool_s_own_value_is_the_output() -> None:
    assert AnyText().take(to_result({"served": "soup"})) == {"served": "soup"}
    assert AnyText().take(to_result("soup")) is None
