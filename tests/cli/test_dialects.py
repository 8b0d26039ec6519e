"""`wholecall dialects`, as it is typed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from wholecall.cli.main import main
from wholecall.dialects.dialect_registry import DIALECTS

TEMPLATES = Path(__file__).parents[1] / "dialects" / "templates"


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """The exit code, and what was written to both outputs."""
    with pytest.raises(SystemExit) as exited:
        main(["dialects", *arguments])
    written = capsys.readouterr()
    return int(exited.value.code or 0), written.out, written.err


def test_the_list_has_every_dialect(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys)
    assert code == 0
    lines = out.splitlines()
    assert lines[0].split() == ["dialect", "family", "written", "by", "prompts"]
    assert {line.split()[0] for line in lines[1:]} >= set(DIALECTS)
    assert [line.split()[-1] for line in lines if line.startswith(("hermes ", "auto "))] == [
        "no",
        "yes",
    ]


def test_one_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "show", "glm45")
    assert code == 0
    for part in ("glm45: tags, written by GLM-4.5", "── prompt ──", "<arg_key>query</arg_key>"):
        assert part in out
    assert "The Book of Tea" in out.partition("── its result ──")[2]
    assert "types that no schema tells" in out


@pytest.mark.parametrize(
    ("text", "guessed", "mark"),
    [
        ('<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>', "hermes", "<tool_call>"),
        ("<|tool_call>call:f{a:1}<tool_call|>", "gemma4", "<|tool_call>"),
        (
            "<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{}<|tool_call_end|>",
            "kimi_k2",
            "<|tool_call_argument_begin|>",
        ),
        ("So.\n<seed:tool_call>\n<function=f>\n</function>\n</seed:tool_call>", "seed_oss", "seed"),
    ],
)
def test_one_is_guessed_from_an_answer(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, *, text: str, guessed: str, mark: str
) -> None:
    answer = tmp_path / "answer.txt"
    answer.write_text(text, encoding="utf-8")
    code, out, _ = run(capsys, "guess", str(answer))
    assert code == 0
    assert f"{guessed}: written by" in out
    assert mark in out
    assert f"emulate: {guessed}`" in out


def test_nothing_is_guessed_from_prose(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    answer = tmp_path / "answer.txt"
    answer.write_text("The tag <tool_call> begins a call.", encoding="utf-8")
    code, out, _ = run(capsys, "guess", str(answer))
    assert (code, "No mark" in out) == (1, True)


def test_a_file_that_is_missing_is_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    code, _, err = run(capsys, "guess", str(tmp_path / "none.txt"))
    assert code != 0
    assert "none.txt" in err


def test_one_that_carries_everything_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert "every call can be written" in run(capsys, "show", "hermes")[1]


def test_one_that_can_only_be_read_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "show", "auto")
    assert code == 0
    assert out.endswith("It can only be read.\n")


def test_an_unknown_one_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, told = run(capsys, "show", "klingon")
    assert code == 2
    assert "there is no dialect 'klingon'; did you mean 'inkling'" in told


def test_one_is_learned_saved_and_shown(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    code, out, _ = run(capsys, "learn", str(TEMPLATES / "hermes.jinja"), "--out", str(path))
    assert code == 0
    for part in ("── dialect ──", "read back as they were", "It is known as 'hermes'", "Saved as"):
        assert part in out
    assert json.loads(path.read_text(encoding="utf-8"))["name"] == "hermes"
    assert "hermes: JSON objects" in run(capsys, "show", str(path))[1]


def test_what_a_template_takes_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "learn", str(TEMPLATES / "llama3.jinja"))
    assert code == 0
    assert "The template takes one call in an answer." in out


def test_one_that_nobody_knew_is_learned(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "learn", str(TEMPLATES / "mistral_list.jinja"))
    assert code == 0
    assert "known as" not in out


def test_what_cannot_be_learned_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, told = run(capsys, "learn", str(TEMPLATES / "silent.jinja"))
    assert code == 2
    assert "does not write the calls of an answer" in told


def test_a_place_that_cannot_be_written_is_told_by_its_option(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    place = tmp_path / "missing" / "mine.json"
    code, _, err = run(capsys, "learn", str(TEMPLATES / "hermes.jinja"), "--out", str(place))
    assert code == 2
    assert f"--out: {place} cannot be written: No such file" in err
