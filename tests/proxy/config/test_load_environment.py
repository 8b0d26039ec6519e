"""What the environment says instead of the file, and the keys that it holds."""

import pytest

from configs import plain
from wholecall.proxy.config.load import fill, override
from wholecall.proxy.config.schema import ConfigError, Position, Secret
from wholecall.proxy.config.settings_reader import compose

FILE = """\
limits: {body_bytes: 5}
models:
  gpt-x.1: {mode: gate}
  plain:
tools: [{python: a:b}]
"""


@pytest.mark.parametrize(
    ("variable", "value", "path", "expected"),
    [
        ("WHOLECALL__LIMITS__BODY_BYTES", "7", ["limits", "body_bytes"], 7),
        ("WHOLECALL__LIMITS__OTHER", "7", ["limits", "other"], 7),
        ("WHOLECALL__LISTEN__PORT", "8", ["listen", "port"], 8),
        ("WHOLECALL__LISTEN__HOSTS", "[a, b]", ["listen", "hosts"], ["a", "b"]),
        ("WHOLECALL__LISTEN__HOST", "'8'", ["listen", "host"], "8"),
        ("WHOLECALL__MODELS__GPT_X_1__MODE", "run", ["models", "gpt-x.1", "mode"], "run"),
        ("WHOLECALL__MODELS__PLAIN__MODE", "run", ["models", "plain", "mode"], "run"),
        ("WHOLECALL__MODELS__NEW__MODE", "run", ["models", "new", "mode"], "run"),
        ("WHOLECALL__TOOLS", "[]", ["tools"], []),
        ("WHOLECALL__MODELS", "{b: {mode: run}}", ["models"], {"b": {"mode": "run"}}),
    ],
)
def test_a_variable_sets_what_its_name_says(
    variable: str, value: str, *, path: list[str], expected: object
) -> None:
    written = override(compose(FILE, "a.yaml"), {variable: value})
    for name in path:
        assert isinstance(written.value, dict)
        written = written.value[name]
    assert plain(written) == expected
    assert written.place == Position(variable)


def test_the_rest_of_the_file_stays_and_so_does_the_file() -> None:
    before = compose(FILE, "a.yaml")
    after = override(before, {"WHOLECALL__LIMITS__BODY_BYTES": "7"})
    assert plain(before) == plain(compose(FILE, "a.yaml"))
    assert isinstance(after.value, dict)
    assert plain(after.value["models"]) == {"gpt-x.1": {"mode": "gate"}, "plain": None}


@pytest.mark.parametrize(
    "variable", ["WHOLECALL_PORT", "WHOLECALL_CONFIG", "WHOLECALL_SERVICE_HOST", "PATH"]
)
def test_other_variables_are_not_ours(variable: str) -> None:
    written = compose(FILE, "a.yaml")
    assert override(written, {variable: "tcp://10.0.0.1:80"}) == written


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("WHOLECALL__TOOLS__0__PYTHON", "a:b", "a list can only be replaced as a whole"),
        ("WHOLECALL__LISTEN", "[", "this is no YAML"),
    ],
)
def test_a_variable_that_cannot_be_read_is_named(
    variable: str, value: str, *, message: str
) -> None:
    with pytest.raises(ConfigError, match=message) as refused:
        override(compose(FILE, "a.yaml"), {variable: value})
    assert (refused.value.file, refused.value.line) == (variable, None)


def test_references_become_secrets_wherever_they_stand() -> None:
    written = compose("a: ${ONE}\nb: [x, 'Bearer ${ONE}-${TWO}']\nc: $ONE ${} 5\nd: 1", "a.yaml")
    filled, problems = fill(written, {"ONE": "1", "TWO": "2"})
    assert plain(filled) == {
        "a": Secret("1"),
        "b": ["x", Secret("Bearer 1-2")],
        "c": "$ONE ${} 5",
        "d": 1,
    }
    assert problems == []


@pytest.mark.parametrize("environ", [{}, {"ONE": ""}])
def test_a_key_that_is_not_set_is_named(environ: dict[str, str]) -> None:
    _, problems = fill(compose("\na: ${ONE}", "a.yaml"), environ)
    [problem] = problems
    assert str(problem) == "a.yaml:2: the environment variable ONE is not set"
