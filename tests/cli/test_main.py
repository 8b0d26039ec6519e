"""The command line as its users meet it: what it prints, where, and how it exits."""

import io
import json
import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from importlib import metadata, resources
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from wholecall.cli import main

PROGRAM = [sys.executable, "-m", "wholecall"]
SECONDS = 60
ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")

TOOLS = [
    {
        "name": "book",
        "input_schema": {
            "type": "object",
            "properties": {"people": {"type": "integer"}, "place": {"type": "string"}},
            "required": ["people"],
        },
    }
]


def answer(*arguments: str, finish_reason: str = "tool_calls") -> dict[str, Any]:
    calls = [
        {"index": number, "id": f"call_{number}", "function": {"name": "book", "arguments": text}}
        for number, text in enumerate(arguments)
    ]
    message = {"content": None, "tool_calls": calls}
    return {"choices": [{"message": message, "finish_reason": finish_reason}]}


WHOLE = answer('{"people": 4}')
CUT = answer('{"people": 4, "pla', finish_reason="length")
CHANGED = answer('{"people": "4", "mood": "cosy",}', '{"people": "a few"}')
DROPPED = {"protocol": "openai-chat", "id": "dropped", "events": []}
TWO_CHOICES = {"choices": [*WHOLE["choices"], {**CUT["choices"][0], "index": 1}]}


class Ran(NamedTuple):
    code: int | str | None
    out: str
    err: str


Run = Callable[..., Ran]
Write = Callable[[str, Any], str]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command line in this process."""

    def run_main(*arguments: str) -> Ran:
        with pytest.raises(SystemExit) as exited:
            main.main(arguments)
        captured = capsys.readouterr()
        return Ran(exited.value.code or 0, captured.out, captured.err)

    return run_main


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write_file(name: str, content: Any) -> str:
        path = tmp_path / name
        path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
        return str(path)

    return write_file


def in_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the output look like a terminal."""
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "100")


# ── check ───────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("recorded", "code", "calls", "reasons"),
    [
        (WHOLE, 0, [{"people": 4}], []),
        (CUT, 1, [], ["truncated"]),
        (DROPPED, 1, [], []),
        (TWO_CHOICES, 1, [{"people": 4}], []),
    ],
)
def test_check_prints_json_and_exits_by_the_outcome(
    recorded: dict[str, Any], code: int, *, calls: list[Any], reasons: list[str]
) -> None:
    """A real process, its answer from the standard input and its JSON into a pipe."""
    ran = subprocess.run(
        [*PROGRAM, "check", "-"],
        input=json.dumps(recorded),
        capture_output=True,
        encoding="utf-8",
        timeout=SECONDS,
        check=False,
    )
    shown = json.loads(ran.stdout)
    assert (ran.returncode, ran.stderr) == (code, "")
    assert [call["arguments"] for call in shown["calls"]] == calls
    assert [rejected["reason"] for rejected in shown["rejected"]] == reasons


def test_check_takes_several_files_and_one_bad_answer_counts(run: Run, write: Write) -> None:
    files = [write("good", WHOLE), write("bad", CUT), write("again", WHOLE)]
    ran = run("check", *files)
    assert ran.code == 1
    assert [json.loads(line)["title"] for line in ran.out.splitlines()] == files


LABELS = ["received", "repaired", "coerced", "dropped", "CALL", "received", "problem", "REJECTED"]


def test_check_shows_problems_coercions_and_repairs_in_words(run: Run, write: Write) -> None:
    tools = write("tools.json", TOOLS)
    ran = run("check", write("changed", CHANGED), "--tools", tools, "--readable")
    assert (ran.code, ran.err) == (1, "")
    labels = [line.split()[0] for line in ran.out.splitlines() if line.startswith("  ")]
    assert labels == LABELS
    assert '  coerced  $.people: "4" -> 4' in ran.out
    assert '  CALL     book {"people": 4}' in ran.out
    assert "people" in ran.out.split("problem")[1]


def test_check_shows_the_same_in_json(run: Run, write: Write) -> None:
    ran = run("check", write("changed", CHANGED), "--tools", write("tools.json", TOOLS))
    shown = json.loads(ran.out)
    [call], [rejected] = shown["calls"], shown["rejected"]
    assert [repair["kind"] for repair in call["repairs"]] == ["trailing_comma"]
    assert call["coercions"] == [{"path": "$.people", "before": "4", "after": 4}]
    assert call["dropped"] == ["mood"]
    assert [problem["path"] for problem in rejected["problems"]] == ["$.people"]


@pytest.mark.parametrize("flags", [[], ["--readable"]])
def test_a_terminal_gets_words(
    flags: list[str], run: Run, *, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_terminal(monkeypatch)
    ran = run("check", write("cut", CUT), *flags)
    assert ran.code == 1
    assert "╭─ call 0  book" in ANSI.sub("", ran.out)


def test_a_terminal_gets_json_if_it_is_asked_for(
    run: Run, write: Write, *, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_terminal(monkeypatch)
    assert json.loads(run("check", write("whole", WHOLE), "--json").out)["error"] is None


def test_a_protocol_may_be_named(run: Run, write: Write) -> None:
    ran = run("check", write("whole", WHOLE), "--protocol", "anthropic")
    assert json.loads(ran.out)["calls"] == []


# ── replay ──────────────────────────────────────────────────────────────────────────


def test_replay_in_a_pipe_prints_plain_lines(run: Run, write: Write) -> None:
    path = write("whole", WHOLE)
    ran = run("replay", path, "--tools", write("tools.json", TOOLS))
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == (
        f"== {path}\n"
        "call 0     book  [CLOSED CONFIRMED]\n"
        '  received {"people": 4}\n'
        '  CALL     book {"people": 4}\n'
        "ended      tool_calls (the upstream said 'tool_calls')\n\n"
    )


def test_replay_in_a_terminal_draws_frames(
    run: Run, write: Write, *, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_terminal(monkeypatch)
    pauses: list[float] = []
    monkeypatch.setattr("wholecall.cli.report.time.sleep", pauses.append)
    ran = run("replay", write("whole", WHOLE), "--pause", "0.25")
    assert pauses == [0.25, 0.25]
    assert "╭─ call 0  book" in ANSI.sub("", ran.out)


def demo_cases() -> list[dict[str, Any]]:
    path = resources.files("wholecall") / "demo" / "streams.jsonl"
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


VERDICTS = {
    "interleaved": ["CALL", "CALL"],
    "anthropic": ["CALL"],
    "cut-off": ["REJECTED truncated"],
    "dropped": ["REJECTED stream_dropped"],
    "all-zero": ["CALL", "CALL"],
    "placeholder": ["CALL"],
    "schema": ["CALL", "REJECTED schema"],
    "llama-cpp": ["CALL"],
}


def test_without_a_file_it_shows_what_the_titles_of_ours_say(run: Run) -> None:
    ran = run("replay")
    assert (ran.code, ran.err) == (0, "")
    shown = ran.out.strip().split("\n\n")
    assert [case["id"] for case in demo_cases()] == list(VERDICTS)
    for number, case in enumerate(demo_cases()):
        title, *lines = shown[number].split("\n")
        assert title == f"== {number + 1}/{len(VERDICTS)}  {case['title']}"
        found = re.findall(r"^  (CALL|REJECTED)\s+(\w+)", "\n".join(lines), re.MULTILINE)
        verdicts = [word if word == "CALL" else f"{word} {reason}" for word, reason in found]
        assert verdicts == VERDICTS[case["id"]]


def test_ours_are_short_and_their_titles_fit_a_terminal() -> None:
    assert sum(len(case["events"]) for case in demo_cases()) * 0.1 < 20
    assert all(len(f"1/8  {case['title']}") < 80 for case in demo_cases())


def test_they_run_in_a_real_terminal() -> None:
    ours, theirs = pty.openpty()
    ran = subprocess.Popen(
        [*PROGRAM, "replay", "--pause", "0"],
        stdout=theirs,
        stderr=subprocess.PIPE,
        env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "80", "LINES": "40"},
    )
    os.close(theirs)
    screen = read_until_closed(ours)
    assert ran.communicate(timeout=SECONDS)[1] == b""
    assert ran.returncode == 0
    assert "\x1b[" in screen
    lines = ANSI.sub("", screen).splitlines()
    calls = sum(line.startswith("╭─ call") for line in lines)
    assert calls == sum(map(len, VERDICTS.values()))
    assert max(map(len, lines)) <= 80


def read_until_closed(terminal: int) -> str:
    pieces: list[bytes] = []
    while True:
        try:
            piece = os.read(terminal, 65536)
        except OSError:  # Linux says so when the other side has closed
            piece = b""
        if not piece:
            os.close(terminal)
            return b"".join(pieces).decode()
        pieces.append(piece)


# ── Errors ──────────────────────────────────────────────────────────────────────────


BAD_FILES = {
    "": "file is empty: record something into it first",
    "hello": "file, line 1, column 1 is not JSON",
    "{}": "file: no payload looks like a protocol that is known; name one with --protocol",
}


@pytest.mark.parametrize("content", BAD_FILES)
@pytest.mark.parametrize("command", ["check", "replay"])
def test_a_bad_file_is_one_line_on_stderr(
    content: str, command: str, *, run: Run, write: Write
) -> None:
    ran = run(command, write("file", content))
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("wholecall: ")
    assert BAD_FILES[content] in ran.err
    assert ran.err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["chek"], "there is no command 'chek'; did you mean 'check'? (see wholecall --help)"),
        (["check"], "Missing argument 'FILE'"),
        (["check", "--nope", "x"], "No such option"),
        (["check", "missing"], "missing: No such file or directory"),
        (["check", "x", "--protocol", "y"], "--protocol: protocol 'y' is unknown; known are open"),
        (["check", "x", "--tools", "missing.json"], "missing.json: No such file or directory"),
        (["replay", "x", "--pause", "-1"], "Invalid value for '--pause'"),
        (["check", "a\x1b[2J\nb"], "a\\x1b[2J\\nb: No such file or directory"),
    ],
)
def test_a_bad_command_is_one_line_on_stderr(
    arguments: list[str], complaint: str, *, run: Run
) -> None:
    ran = run(*arguments)
    assert (ran.code, ran.out) == (2, "")
    assert complaint in ran.err
    assert ran.err.count("\n") == 1
    assert ran.err.strip().isprintable()


def test_tools_that_are_no_list_are_refused(run: Run, write: Write) -> None:
    ran = run("check", write("whole", WHOLE), "--tools", write("tools.json", TOOLS[0]))
    assert (ran.code, ran.out) == (2, "")
    assert "tools.json: tools are a JSON array of tool definitions" in ran.err


def test_the_version_is_printed(run: Run) -> None:
    assert run("--version") == (0, f"wholecall {metadata.version('wholecall')}\n", "")


def test_without_a_command_help_is_shown(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["wholecall"])
    ran = run()
    assert ran == run("--help")
    assert ran.code == 0
    assert all(command in ran.out for command in ("demo", "replay", "check", "--version"))


def test_no_command_offers_options_that_are_not_ours(run: Run) -> None:
    words = re.findall(r"^  (\w+)  ", run("--help").out.partition("Commands:")[2], re.MULTILINE)
    assert len(words) > 10
    assert [word for word in words if "completion" in run(word, "--help").out] == []


def test_help_says_what_check_prints_and_where(run: Run) -> None:
    words = " ".join(run("check", "--help").out.split())
    assert "Default: words in a terminal, JSON in a pipe." in words
    assert "Exits with 1 if a call was rejected or a stream failed" in words


# ── Signals and pipes ───────────────────────────────────────────────────────────────


def test_a_pipe_that_closes_early_is_no_crash(write: Write) -> None:
    path = write("whole", WHOLE)
    with subprocess.Popen(
        [*PROGRAM, "check", *[path] * 2_000], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(SECONDS) == 1


def test_ctrl_c_ends_it_quietly() -> None:
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [*PROGRAM, "replay", "--pause", "30"],
        stdout=theirs,
        stderr=subprocess.PIPE,
        env={**os.environ, "TERM": "xterm-256color"},
    ) as process:
        os.close(theirs)
        seen = b""
        while b"1/8" not in seen:  # the first frame
            seen += os.read(ours, 65536)
        process.send_signal(signal.SIGINT)
        screen = read_until_closed(ours)
        assert process.stderr is not None
        assert process.stderr.read() == b""
        assert process.wait(SECONDS) == 128 + signal.SIGINT
    assert screen.endswith("\x1b[?25h")  # the cursor is back


def test_a_character_set_that_lacks_a_letter_is_no_crash(write: Write) -> None:
    path = write("whole", answer('{"people": 4, "place": "Tromsø 漢"}'))
    ran = subprocess.run(
        [*PROGRAM, "replay", path],
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": "latin-1"},
        timeout=SECONDS,
        check=True,
    )
    assert b'"place": "Troms\xf8 \\u6f22"' in ran.stdout


def test_any_stream_will_do_for_the_output(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    output = io.StringIO()
    monkeypatch.setattr(sys, "stdout", output)
    with pytest.raises(SystemExit):
        main.main(["check", write("whole", WHOLE)])
    assert json.loads(output.getvalue())["error"] is None
