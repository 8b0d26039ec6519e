"""The four tools, called as functions and as the model would."""

import re
from zoneinfo import ZoneInfo

import pytest

from wholecall.scripted_model import (
    TOOLS,
    City,
    calculate_expression,
    get_time,
    get_weather,
    load_cities,
    search_docs,
    tell_time,
)
from wholecall.tools.tool import Failed, Retry
from wholecall.tools.toolbox import Toolbox


def test_they_are_four_that_change_nothing() -> None:
    toolbox = Toolbox(TOOLS)
    assert list(toolbox.offer) == ["get_weather", "get_time", "calculate", "search_docs"]
    assert all(tool.read_only for tool in toolbox)
    assert all(spec.description for spec in toolbox.offer.values())


@pytest.mark.parametrize("name", ["Oslo", " oslo ", "OSLO, Norway"])
def test_weather_comes_from_the_table(name: str) -> None:
    assert get_weather(name) == {"city": "Oslo", "celsius": 3, "sky": "snow"}


NAMES = [("Kairo", "Cairo"), ("londres", "London"), ("Wien, Austria", "Vienna"), ("Rom", "Rome")]


@pytest.mark.parametrize(("name", "city"), NAMES)
def test_a_city_is_known_by_its_names_in_other_languages(name: str, city: str) -> None:
    assert get_weather(name)["city"] == city


def test_no_two_cities_share_a_name() -> None:
    names = [each for name, city in load_cities().items() for each in (name, *city.also)]
    assert len(names) == len({name.casefold() for name in names})


def test_every_city_has_a_time_zone() -> None:
    for city in load_cities().values():
        assert ZoneInfo(city.zone).key == city.zone


def test_the_time_is_that_of_the_city() -> None:
    assert re.fullmatch(r"In Tokyo it is \w+, \d{4}-\d\d-\d\d \d\d:\d\d \(JST\)", get_time("tokyo"))


@pytest.mark.parametrize("name", ["Osllo", "Zzyzx", "Os", ""])
def test_an_unknown_city_is_answered_with_the_list_and_never_with_another_city(name: str) -> None:
    for ask in (get_weather, get_time):
        with pytest.raises(Failed) as failed:
            ask(name)
        assert str(failed.value) == (
            f"Nothing is known about {name!r}. Known cities: {', '.join(load_cities())}."
        )


def test_a_machine_without_time_zones_says_so() -> None:
    with pytest.raises(Failed, match="no time zones"):
        tell_time("Atlantis", City(zone="Sea/Atlantis", celsius=4, sky="wet"))


def test_calculations() -> None:
    assert calculate_expression("6 * 7") == 42
    with pytest.raises(Retry, match="division by zero"):
        calculate_expression("1 / 0")


def test_the_docs_are_searched() -> None:
    assert "Approvals: " in search_docs("approvals")
    assert search_docs("qqqq") == "Nothing is written about 'qqqq'."
