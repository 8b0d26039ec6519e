"""The scenarios of `wholecall.faults`, with the tools of another program in the parts of theirs.

A scenario calls `get_weather`, `send_email` and `write_file`. A `Casting` says which tool of the
program plays each of them, word by word: the names of the tools and of their parameters, and the
values. Faults stay where they are: a text that is cut inside of a word is cut inside the new one.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from wholecall.faults.scenarios import SCENARIOS
from wholecall.faults.script import (
    FILE,
    FINAL,
    PROTOCOLS,
    Begin,
    Drop,
    Expected,
    Form,
    Grow,
    Raw,
    Say,
    Scenario,
    ScriptAnswer,
    Step,
    ToolRun,
    answer,
    call,
    calls,
    cut_call,
    forms,
    later,
    runs,
    write,
)

_WORD = re.compile(
    r"""(?P<quote>["'])(?P<word>(?:(?!(?P=quote))[^\\]|\\.)*)(?P<end>(?P=quote)|$)"""
)
_CITIES = ("Oslo", "Rome")
_FILES = {"ada@example.org": "ada", "bob@example.org": "bob", "notes.txt": "notes"}
_BODIES = (
    *("Dinner is at eight.", "Dinner is at nine."),
    *("hello world, and good night", "hello"),
)
_LOG = "ran.txt"

HEALTHY = ("good", "text-and-call", "reasoning-and-call")
FAULTS = (
    *("truncated-after-member", "truncated-in-string", "truncated-second-call"),
    *("truncated-but-stop", "truncated-but-tool-calls", "blank-flood"),
    *("dropped-in-call", "dropped-after-call", "reset-before-headers", "reset-in-call"),
    *("hang-in-call", "error-in-call", "error-after-call", "malformed-event"),
    *("finish-stop", "finish-length", "finish-missing", "no-terminator"),
    *("id-missing", "placeholder-first", "call-sent-twice"),
    *("trailing-comma", "python-literals", "fenced-arguments", "broken-json"),
    *("missing-parameter", "unknown-tool", "rate-limited", "server-error", "overloaded"),
    *("page-instead", "empty-answer", "text-tagged-json"),
)


class Casting:
    """Which words of a scenario become which words of a program's tools, in one folder."""

    def __init__(self, words: Mapping[str, str], folder: Path, *, writes_by_shell: bool) -> None:
        self._words = {
            **words,
            **{city: f">> {folder / _LOG} echo {city}" for city in _CITIES},
            **{word: str(folder / name) for word, name in _FILES.items()},
        }
        if writes_by_shell:
            self._words |= {body: f">> body echo {body}" for body in _BODIES}
        self._known = [*self._words, *_BODIES]

    def play(self, name: str) -> Scenario:
        """Return a scenario with the program's tools."""
        scenario = SCENARIOS[name]
        return replace(
            scenario,
            turns=tuple(tuple(map(self._answer, answers)) for answers in scenario.turns),
            expected=self._expect(scenario.expected),
            differs={form: self._expect(each) for form, each in scenario.differs.items()},
            # A program asks for more than its task, such as a title: then it offers no tools.
            closing=FINAL if scenario.closing is None else self._answer(scenario.closing),
        )

    def _expect(self, expected: Expected) -> Expected:
        first = expected.first
        return replace(
            expected,
            runs=tuple(map(self._run, expected.runs)),
            first=None if first is None else tuple(map(self._run, first)),
            instead=tuple(map(self._run, expected.instead)),
        )

    def _run(self, run: ToolRun) -> ToolRun:
        return ToolRun(self._name(run.tool) or "", self._object(run.arguments))

    def _object(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        return {
            self._words.get(key, key): self._words.get(value, value)
            if isinstance(value, str)
            else value
            for key, value in arguments.items()
        }

    def _name(self, name: str | None) -> str | None:
        return None if name is None else self._words.get(name, name)

    # ── Steps ───────────────────────────────────────────────────────────────────────

    def _answer(self, answer: ScriptAnswer) -> ScriptAnswer:
        texts: dict[int, list[str]] = defaultdict(list)
        for number, step in _number(answer.steps):
            text = _read_text(step)
            texts[number] += [text] if text else []
        cut = {
            number: _split(self._text("".join(pieces)), len(pieces))
            for number, pieces in texts.items()
        }
        steps = (self._step(step, cut[number]) for number, step in _number(answer.steps))
        return replace(answer, steps=tuple(steps))

    def _step(self, step: Step, pieces: Iterator[str]) -> Step:
        piece = next(pieces, "") if _read_text(step) else ""
        if isinstance(step, Say):
            return Say(piece)
        if not isinstance(step, Begin | Grow):
            return step
        if not isinstance(step.arguments, str):
            return replace(step, name=self._name(step.name), arguments=self._object(step.arguments))
        return replace(step, name=self._name(step.name), arguments=piece)

    def _text(self, text: str) -> str:
        return _WORD.sub(self._word, text)

    def _word(self, found: re.Match[str]) -> str:
        word, quote = found["word"], found["quote"]
        if found["end"]:
            return quote + self._words.get(word, word) + quote
        whole = next((known for known in self._known if word and known.startswith(word)), word)
        missing = len(whole) - len(word)
        new = self._words.get(whole, whole)
        return quote + new[: len(new) - missing]


def _read_text(step: Step) -> str:
    """Return what a step says: words, or a piece of arguments."""
    if isinstance(step, Say):
        return step.text
    given = step.arguments if isinstance(step, Begin | Grow) else ""
    return given if isinstance(given, str) else ""


def _number(steps: Iterable[Step]) -> Iterator[tuple[int, Step]]:
    """Give each step the number of the text that it belongs to. A call may begin twice."""
    current: dict[int, int] = {}
    for number, step in enumerate(steps):
        if isinstance(step, Begin):
            current[step.call] = number
        yield current.get(step.call, -1) if isinstance(step, Begin | Grow) else -1, step


def _split(text: str, pieces: int) -> Iterator[str]:
    """Cut a text into exactly so many pieces."""
    cuts = [len(text) * number // max(1, pieces) for number in range(max(1, pieces) + 1)]
    return (text[begin:end] for begin, end in pairwise(cuts))


def list_scenarios(protocol: str, names: tuple[str, ...]) -> list[str]:
    """Return those of the scenarios that a protocol's streams have."""
    assert protocol in PROTOCOLS
    return [name for name in names if Form(protocol, True) in SCENARIOS[name].forms]


def prepare_folder(folder: Path, *, writes_by_shell: bool) -> None:
    """Make the folders in which a shell writes."""
    folder.mkdir(parents=True)
    if writes_by_shell:
        for name in _FILES.values():
            (folder / name).mkdir()


def read_runs(folder: Path) -> list[ToolRun]:
    """Return what ran, as the scenario calls it, from the files that are there."""
    ran = [ToolRun("get_weather", {"city": line, "unit": "C"}) for line in _lines(folder / _LOG)]
    for word, name in _FILES.items():
        path = folder / name
        bodies = _lines(path / "body") if path.is_dir() else _whole(path)
        ran += (_written(word, body) for body in bodies)
    known = {_LOG, *_FILES.values()}
    strange = sorted(each.name for each in folder.iterdir() if each.name not in known)
    return ran + [ToolRun("unknown", {"file": name}) for name in strange]


def _written(word: str, body: str) -> ToolRun:
    if "@" in word:
        return ToolRun("send_email", {"to": word, "body": body})
    return ToolRun("write_file", {"path": word, "content": body})


def _lines(path: Path) -> list[str]:
    return path.read_text("utf-8").splitlines() if path.exists() else []


def _whole(path: Path) -> list[str]:
    return [path.read_text("utf-8").removesuffix("\n")] if path.exists() else []


# ── The newest Codex ────────────────────────────────────────────────────────────────

# All that it can do are functions of a script: the free text of the tool `exec`, in a namespace.

_EXEC = "functions__exec"
_BY_SHELL = (
    f"text(await tools.exec_command({{cmd: \"printf '{FILE.arguments['content']}' > notes\"}}));"
)
_PATCH = f"*** Begin Patch\n*** Add File: notes\n+{FILE.arguments['content']}\n*** End Patch\n"
_BY_PATCH = f"text(await tools.apply_patch({json.dumps(_PATCH)}));"


def _execute(script: str) -> ToolRun:
    return ToolRun(_EXEC, {"input": script})


def _write_custom_call(script: str) -> tuple[Step, ...]:
    """Return the call as a Responses upstream makes it."""
    item = {"id": "ctc_1", "type": "custom_tool_call", "call_id": "call_1", "name": "exec"}
    item |= {"namespace": "functions", "input": "", "status": "in_progress"}
    done = {**item, "input": script, "status": "completed"}
    place = {"output_index": 0, "item_id": "ctc_1"}
    kind = "response.custom_tool_call_input"
    events: tuple[dict[str, Any], ...] = (
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        *({"type": f"{kind}.delta", **place, "delta": part} for part in _split(script, 4)),
        {"type": f"{kind}.done", **place, "input": script},
        {"type": "response.output_item.done", "output_index": 0, "item": done},
    )
    return tuple(Raw(f"event: {each['type']}\ndata: {json.dumps(each)}\n\n") for each in events)


_SHELL_CALL = _execute(_BY_SHELL)
_OWN = forms(["openai-responses"], streamed=[True])
_ELSEWHERE = forms(["openai-chat", "anthropic"], streamed=[True])
_CUT = cut_call(_SHELL_CALL, "hello wor")
CODEX_HEALTHY = ("script", "patch")
CODEX_OWN = ("custom-script", "custom-patch")
CODEX_FAULTS = ("truncated-in-string", "dropped-in-call", "trailing-comma")


def _script(name: str, *answers: ScriptAnswer, first: bool = True) -> Scenario:
    return Scenario(
        name=name,
        sentence="",
        turns=(answers, (FINAL,)),
        expected=runs(FILE) if first else later(FILE),
        forms=_OWN if name in CODEX_OWN else _ELSEWHERE,
    )


CODEX_SCENARIOS: dict[str, Scenario] = {
    scenario.name: scenario
    for scenario in (
        _script("script", calls(_SHELL_CALL)),
        _script("patch", calls(_execute(_BY_PATCH))),
        _script("custom-script", answer(*_write_custom_call(_BY_SHELL), reason=None)),
        _script("custom-patch", answer(*_write_custom_call(_BY_PATCH), reason=None)),
        _script(
            "dropped-in-call", ScriptAnswer(steps=(*_CUT, Drop())), calls(_SHELL_CALL), first=False
        ),
        _script("trailing-comma", answer(*call(_SHELL_CALL, text=write(_SHELL_CALL)[:-1] + ",}"))),
        replace(
            _script("truncated-in-string", first=False),
            turns=((answer(*_CUT, reason="length"),), (calls(_SHELL_CALL),), (FINAL,)),
        ),
    )
}
"""What the newest Codex is given to do, in the upstream's own form and as functions elsewhere."""
