"""`wholecall chat` as a command, its questions from a pipe."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from wholecall.cli import main
from wholecall.faults.fault_server import start_in_thread


def chat(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[object, str, str]:
    with pytest.raises(SystemExit) as exited:
        main.main(["chat", *arguments])
    captured = capsys.readouterr()
    return exited.value.code or 0, captured.out, captured.err


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHOLECALL_MODELS", str(tmp_path / "models"))


def test_questions_may_come_from_a_pipe(
    *, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("Hello\n"))
    with start_in_thread() as server:
        code, out, _ = chat(
            capsys, "faults/answer-only", "--base-url", server.base_url, "--system", "Be brief."
        )
    assert code == 0
    assert "All done." in out


def test_a_model_that_is_not_here_says_how_to_get_it(*, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = chat(capsys)
    assert code == 2
    assert "run `wholecall model pull qwen2.5-coder-1.5b`" in err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nonsense"], "openai/nonsense, "),
        (["nonsense"], "; or give --base-url of an endpoint that speaks OpenAI's chat completions"),
        (["./my.gguf"], "does not say who answers for it: write local/./my.gguf; or give --base"),
        (["ollama/"], "the name of a model is missing: write ollama/…"),
        ([""], "wholecall: the name of the model is empty"),
        (["", "--base-url", "http://127.0.0.1:9"], "wholecall: the name of the model is empty"),
    ],
)
def test_a_name_that_says_too_little_is_told_in_the_words_of_the_command_line(
    arguments: list[str], said: str, *, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = chat(capsys, *arguments)
    assert (code, out) == (2, "")
    assert said in err
    assert "base_url=" not in err


@pytest.mark.parametrize(
    ("dialect", "said"),
    [("klingon", "no dialect 'klingon'"), ("think_tags", "nothing is written in the dialect")],
)
def test_a_dialect_that_cannot_be_used_is_told_before_the_first_question(
    dialect: str, said: str, *, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = chat(capsys, "demo", "--emulate", dialect)
    assert (code, out) == (2, "")
    assert said in err


@pytest.mark.parametrize("dialect", ["native", "auto", "constrained", "hermes"])
def test_every_other_way_to_offer_tools_is_taken(
    dialect: str, *, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    code, out, _ = chat(capsys, "demo", "--emulate", dialect)
    assert (code, out[:5]) == (0, "demo.")


@pytest.mark.parametrize("url", ["foo", "http://[::1", "http://h:99999", "http://a b/"])
@pytest.mark.parametrize(
    ("model", "variable"), [("openai/x", "OPENAI_BASE_URL"), ("anthropic/x", "ANTHROPIC_BASE_URL")]
)
def test_an_address_that_cannot_be_asked_is_told_by_who_gave_it(
    model: str,
    variable: str,
    *,
    url: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    code, out, err = chat(capsys, model, "--base-url", url)
    assert (code, out) == (2, "")
    assert f"--base-url: {url!r} is not an http:// or https:// address" in err
    monkeypatch.setenv(variable, url)
    code, out, err = chat(capsys, model)
    assert (code, out) == (2, "")
    assert f"{variable}: {url!r} is not an http:// or https:// address" in err


def test_a_host_of_ollama_needs_no_scheme_but_must_be_one(
    *, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    code, _, _ = chat(capsys, "ollama/x", "--base-url", "127.0.0.1:9")
    assert code == 0
    code, _, err = chat(capsys, "ollama/x", "--base-url", "http://[::1")
    assert code == 2
    assert "--base-url: 'http://[::1' is not the address of an Ollama server" in err


def test_the_script_needs_neither_model_nor_server(
    *, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("How is the weather in Oslo?\n"))
    code, out, _ = chat(capsys, "demo")
    assert code == 0
    assert "In Oslo it is 3 °C, and it snows." in out
