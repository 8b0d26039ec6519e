import pytest

from wholecall.errors import WholecallError
from wholecall.proxy.config.schema import ConfigError, ConfigProblem, Position


@pytest.mark.parametrize(
    ("place", "setting", "shown"),
    [
        (Position("a.yaml", 3), "listen.port", "a.yaml:3: listen.port: it is wrong"),
        (Position("a.yaml", 3), "", "a.yaml:3: it is wrong"),
        (Position("WHOLECALL__X"), "x", "WHOLECALL__X: x: it is wrong"),
    ],
)
def test_a_problem_says_where_and_what(place: Position, setting: str, *, shown: str) -> None:
    assert str(ConfigProblem(place, setting, "it is wrong")) == shown


def test_an_error_has_all_problems_and_the_place_of_the_first() -> None:
    first = ConfigProblem(Position("a.yaml", 3), "x", "one")
    error = ConfigError([first, ConfigProblem(Position("a.yaml", 5), "y", "two")])
    assert isinstance(error, WholecallError)
    assert (error.file, error.line, error.message) == ("a.yaml", 3, "one")
    assert str(error) == "a.yaml:3: x: one; a.yaml:5: y: two"
