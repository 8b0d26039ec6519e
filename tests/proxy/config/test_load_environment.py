"""What the environment says instead of the file, and the keys that it holds."""

from pathlib import Path

import pytest

from configs import load_text
from wholecall.proxy.config.load import compose, load_config, override
from wholecall.proxy.config.schema import ConfigError, Position, Secret

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
    found = written.value
    for name in path:
        assert isinstance(found, dict)
        found = found[name]
    assert found == expected
    assert written.places[tuple(path)] == Position(variable)


def test_the_rest_of_the_file_stays_and_so_does_the_file() -> None:
    before = compose(FILE, "a.yaml")
    after = override(before, {"WHOLECALL__LIMITS__BODY_BYTES": "7"})
    assert before == compose(FILE, "a.yaml")
    assert isinstance(after.value, dict)
    assert after.value["models"] == {"gpt-x.1": {"mode": "gate"}, "plain": None}
    assert after.places["models", "gpt-x.1", "mode"] == Position("a.yaml", 3)


def test_what_is_replaced_as_a_whole_leaves_no_position() -> None:
    after = override(compose(FILE, "a.yaml"), {"WHOLECALL__MODELS": "{b: {mode: run}}"})
    assert ("models", "gpt-x.1") not in after.places
    assert after.places["models", "b", "mode"] == Position("WHOLECALL__MODELS")
    new = override(compose(FILE, "a.yaml"), {"WHOLECALL__LOG__LEVEL": "info"})
    assert new.places["log",] == Position("WHOLECALL__LOG__LEVEL")


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
        ("WHOLECALL__LISTEN", "[", "this is not valid YAML"),
    ],
)
def test_a_variable_that_cannot_be_read_is_named(
    variable: str, value: str, *, message: str
) -> None:
    with pytest.raises(ConfigError, match=message) as refused:
        override(compose(FILE, "a.yaml"), {variable: value})
    assert (refused.value.file, refused.value.line) == (variable, None)


HEADERS = """\
models:
  a:
    upstream: openai/x
    headers:
      A: ${ONE}
      B: "Bearer ${ONE}-${TWO}"
      C: $ONE ${} 5
"""


def test_references_become_secrets_wherever_they_may_be(tmp_path: Path) -> None:
    loaded = load_text(tmp_path, HEADERS, environ={"ONE": "1", "TWO": "2"})
    headers = loaded.config.models["a"].headers
    assert headers == {"A": Secret("1"), "B": Secret("Bearer 1-2"), "C": "$ONE ${} 5"}
    written = [value.written for value in headers.values() if isinstance(value, Secret)]
    assert written == ["${ONE}", "Bearer ${ONE}-${TWO}"]


@pytest.mark.parametrize("environ", [{}, {"ONE": ""}])
def test_a_key_that_is_not_set_is_named(environ: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        load_text(tmp_path, HEADERS, environ={"TWO": "2", **environ})
    missing = "the environment variable ONE is not set"
    assert [str(problem) for problem in refused.value.problems] == [
        f"{tmp_path / 'wholecall.yaml'}:5: models.a.headers.A: {missing}",
        f"{tmp_path / 'wholecall.yaml'}:6: models.a.headers.B: {missing}",
    ]


def test_a_key_may_be_set_by_a_variable_of_its_own() -> None:
    environ = {
        "WHOLECALL__MODELS": '{"a": {"upstream": "openai/x", "api_key": "sk-1"}}',
        "WHOLECALL__MODELS__A__API_KEY": "sk-123",
    }
    assert load_config(None, environ).models["a"].api_key == Secret("sk-123")
    del environ["WHOLECALL__MODELS__A__API_KEY"]
    assert load_config(None, environ).models["a"].api_key == Secret("sk-1")
