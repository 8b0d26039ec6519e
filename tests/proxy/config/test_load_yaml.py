"""Files as they are written: values, lines, and what is refused."""

import pytest

from wholecall.proxy.config.load import CHARACTERS, DEPTH, VALUES, compose
from wholecall.proxy.config.schema import ConfigError, Position


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", {}),
        ("# only a comment\n", {}),
        ("a: 1", {"a": 1}),
        ("a: -1", {"a": -1}),
        ("a: 1.5", {"a": 1.5}),
        ("a: 1e6", {"a": 1e6}),
        ("a: .5", {"a": 0.5}),
        ("a: 12345678901234567890", {"a": 12345678901234567890.0}),
        ("a: true", {"a": True}),
        ("a: FALSE", {"a": False}),
        ("a: null", {"a": None}),
        ("a: ~", {"a": None}),
        ("a:", {"a": None}),
        ("a: ''", {"a": ""}),
        ('a: "1"', {"a": "1"}),
        ("a: 'true'", {"a": "true"}),
        # In YAML 1.1 these were a truth value, a number of minutes and an octal number.
        ("a: no", {"a": "no"}),
        ("a: on", {"a": "on"}),
        ("a: 12:30", {"a": "12:30"}),
        ("a: 010", {"a": 10}),
        ("a: 2026-01-01", {"a": "2026-01-01"}),
        ("a: .inf", {"a": ".inf"}),
        ("a: [1, x, [2]]", {"a": [1, "x", [2]]}),
        ("a: {b: {c: d}}", {"a": {"b": {"c": "d"}}}),
        ("1: a", {"1": "a"}),
        ("a: &x [1]\nb: *x", {"a": [1], "b": [1]}),
    ],
)
def test_values_are_those_of_yaml_1_2(text: str, value: object) -> None:
    assert compose(text, "a.yaml").value == value


def test_every_value_has_the_line_of_its_name() -> None:
    written = compose("a:\n  b: 1\n  c:\n    - x\n    - y\n", "a.yaml")
    lines = [(".".join(path), place.line) for path, place in written.places.items()]
    assert lines == [("", 1), ("a", 1), ("a.b", 2), ("a.c", 3), ("a.c.0", 4), ("a.c.1", 5)]


def test_a_variable_has_no_lines() -> None:
    written = compose("[1, 2]", "WHOLECALL__X", line=None)
    assert written.value == [1, 2]
    assert set(written.places.values()) == {Position("WHOLECALL__X", None)}
    assert compose("", "WHOLECALL__X", line=None).value is None


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("a: 1\nb: 2\na: 3", 3, "'a' is already set in line 1"),
        ("a:\n  x: 1\n  x: 1", 3, "'x' is already set in line 2"),
        ("a: [1\nb: 2", 2, "this is not valid YAML"),
        ("a: 1\n\tb: 2", 2, "this is not valid YAML"),
        ("broken: [\n", 2, "this is not valid YAML: while parsing a flow node"),
        ("a: {", 1, "this is not valid YAML: while parsing a flow node"),
        ("a: {\n\n", 3, "this is not valid YAML: while parsing a flow"),
        ('a: "x', 1, "this is not valid YAML: while scanning a quoted scalar"),
        ('a: "x\n', 2, "this is not valid YAML: while scanning a quoted scalar"),
        ("b: 1\na: {b: ${KEY}}", 2, "inside of { } and [ ], ${NAME} needs quotes"),
        ("a: *nothing", 1, "this is not valid YAML: found undefined alias"),
        ("a: 1\n---\nb: 2", 2, "this is not valid YAML: expected a single document"),
        ("a: \x00", None, "this is not valid YAML"),
        ("a: 1\n? [x]\n: 1", 2, "the name of a setting must be a word"),
        ("a: 1\nb: !!python/object:os.system x", 2, "is not allowed: leave it out"),
        ('a: 1\nb: "\\ud800"', 2, "half of a surrogate pair is not a character"),
        ('a: 1\n"\\udfff": 1', 2, "half of a surrogate pair is not a character"),
        ("a: !secret x", 1, "the tag '!secret' is not allowed"),
        ("a: " + "x" * CHARACTERS, None, f"more than {CHARACTERS} characters"),
        ("a: " + "[" * DEPTH + "]" * DEPTH, 1, f"more than {DEPTH} levels"),
        ("a: " + "[" * 5000 + "]" * 5000, None, f"more than {DEPTH} levels"),
        ("a: [" + "1," * VALUES + "]", 1, f"more than {VALUES} values"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_its_line(
    text: str, line: int | None, *, message: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        compose(text, "a.yaml")
    assert refused.value.file == "a.yaml"
    assert refused.value.line == (line or 1)
    assert message in refused.value.message


def test_aliases_cannot_grow_beyond_the_limit() -> None:
    """Ten lines that stand for ten thousand million words."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    with pytest.raises(ConfigError, match=f"more than {VALUES} values"):
        compose("\n".join(lines), "a.yaml")


def test_an_alias_of_itself_is_refused() -> None:
    with pytest.raises(ConfigError, match=f"more than {DEPTH} levels"):
        compose("a: &a [*a]", "a.yaml")
