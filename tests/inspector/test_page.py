"""The page's own files: no way from text to markup, and the parts that are pure."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from inspector.payloads import PAYLOADS
from inspector.recorded import OVER, STORY, record
from inspector.recorded import told as events_of
from wholecall.agent.run_events import Resumed, Status, ToolEnded, ToolRecalled, TurnStarted
from wholecall.events import Call, Evidence, Text
from wholecall.messages import Result

PAGE = Path(__file__).parents[2] / "src" / "wholecall" / "inspector" / "page"
FILES = sorted(PAGE.iterdir())
# Every way by which a text becomes markup, a script or an address.
FORBIDDEN = (
    "innerHTML",
    "outerHTML",
    "insertAdjacentHTML",
    "document.write",
    "createContextualFragment",
    "DOMParser",
    "setHTML",
    "srcdoc",
    "eval(",
    "new Function",
    "import(",
    "javascript:",
    'setAttribute("style',
    'setTimeout("',
)
NODE = shutil.which("node")
with_node = pytest.mark.skipif(NODE is None, reason="node is not installed")


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_no_text_can_become_markup(file: Path) -> None:
    text = file.read_text("utf-8")
    assert [word for word in FORBIDDEN if word in text] == []
    assert re.findall(r"<[^>]*\son\w+=", text) == []


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_nothing_is_fetched_from_elsewhere(file: Path) -> None:
    addresses = set(re.findall(r"(?:https?:)?//[\w.-]+\.\w+[^\s\"']*", file.read_text("utf-8")))
    assert addresses <= {"http://www.w3.org/2000/svg"}


def test_only_numbers_of_ours_are_parsed() -> None:
    """Arguments are laid out as text: `JSON.parse` would round their numbers."""
    parsing = [file.name for file in FILES if "JSON.parse" in file.read_text("utf-8")]
    assert parsing == ["reading.js", "trying.js"]


def run(program: str, *arguments: Any) -> Any:
    """What a program prints as JSON; it gets the folder of the page and its arguments."""
    assert NODE is not None
    done = subprocess.run(
        [NODE, "--input-type=module", "--eval", program],
        input=json.dumps(arguments),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        cwd=PAGE,
    )
    return json.loads(done.stdout)


_READ = """
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
const given = JSON.parse(readFileSync(0, "utf-8"));
const load = (name) => import(pathToFileURL(`${process.cwd()}/${name}`));
"""
LAY_OUT = f"""{_READ}
const {{ layOut }} = await load("json_view.js");
const told = given[0].map((text) => {{
  const {{ lines, missing }} = layOut(text);
  const write = (line) => "  ".repeat(line.depth) + line.tokens.map((t) => t.text).join("");
  const shown = lines.map(write);
  const open = lines.flatMap((line) => line.tokens).filter((t) => t.kind.includes("open"));
  return {{ shown: shown.join("\\n"), missing: missing.join(""), open: open.map((t) => t.text) }};
}});
console.log(JSON.stringify(told));
"""
FOLD = f"""{_READ}
const {{ foldAll, totals }} = await load("folding.js");
const run = foldAll("run_1", given[0]);
const turns = run.turns.map((turn) => ({{ ...turn, lanes: [...turn.lanes.values()] }}));
const {{ dropped, missed, over }} = run;
console.log(JSON.stringify({{ turns, totals: totals(run), dropped, missed, over }}));
"""


@with_node
def test_whole_json_is_laid_out_as_python_does_it() -> None:
    values: list[Any] = [
        {"a": 1, "b": [1, 2, {"c": None}], "d": {}, "e": [], "f": 'quo"te\\', "g": "{[,:]}"},
        {"big": 123456789012345678901234567890, "small": 1e-7, "word": True},
        [],
        {},
        [[[]]],
    ]
    told = run(LAY_OUT, [json.dumps(value) for value in values])
    assert [one["shown"] for one in told] == [json.dumps(value, indent=2) for value in values]
    assert [(one["missing"], one["open"]) for one in told] == [("", [])] * len(values)


@with_node
def test_what_is_still_open_is_shown_as_open() -> None:
    told = run(
        LAY_OUT, ["", "{", '{"ci', '{"city": "Ro', '{"days": 1', '{"a": [1, {"b": "x\\', "} ]"]
    )
    assert [(one["missing"], one["open"]) for one in told] == [
        ("", []),
        ("}", []),
        ('"}', ['"ci']),
        ('"}', ['"Ro']),
        ("}", ["1"]),
        ('"}]}', ['"x\\']),
        ("", []),
    ]


@with_node
def test_no_text_breaks_the_layout() -> None:
    """Nothing is lost but white space between tokens, at whatever place the text is cut."""
    whole = json.dumps({"list": [1, -2.5e3, "a b"], "deep": {"text": "\\u00e9 \\n", "no": None}})
    texts = [whole[:end] for end in range(len(whole) + 1)] + list(PAYLOADS)
    for text, one in zip(texts, run(LAY_OUT, texts), strict=True):
        assert re.sub(r"\s", "", one["shown"]) == re.sub(r"\s", "", text)


@with_node
def test_events_are_folded_to_turns_and_lanes() -> None:
    told = run(FOLD, events_of(record([*STORY, OVER])))
    [turn] = told["turns"]
    [lane] = turn["lanes"]
    assert (lane["name"], lane["verdict"], lane["text"]) == ("look", "released", '{"city": "Rome"}')
    assert (lane["openedAt"], lane["verdictAt"]) == (2, 5)
    assert turn["ended"]["finish_reason"] == "tool_calls"
    assert told["totals"]["calls"] == 1
    assert told["over"]["fate"] == "done"


@with_node
def test_events_that_come_twice_count_once_and_gaps_are_told() -> None:
    events = events_of(record([*STORY, OVER]))
    once = run(FOLD, events)
    assert run(FOLD, [*events[:4], *events]) == once
    assert (once["dropped"], once["missed"]) == (0, 0)
    assert run(FOLD, [*events[:3], *events[4:]])["missed"] == 1


@with_node
def test_a_run_that_was_taken_over_goes_on_with_its_calls() -> None:
    charge, send = (
        Call(id=f"c{n}", name=name, arguments={}, raw="{}", number=n, evidence=Evidence.CLOSED)
        for n, name in enumerate(["charge", "send"])
    )
    story = [
        Resumed(3, "b", "a"),
        ToolRecalled(charge, Status.DONE),
        ToolEnded(charge, Status.DONE, Result((Text("paid"),))),
        ToolEnded(send, Status.UNKNOWN, Result((Text("who knows"),), failed=True)),
        TurnStarted(4),
    ]
    told = run(FOLD, events_of(record([*story, OVER])))
    first, second = told["turns"]
    assert first["notes"] == ["taken over at turn 3 by worker b"]
    shown = [(lane["name"], lane["recalled"], lane["status"]) for lane in first["lanes"]]
    assert shown == [("charge", True, "done"), ("send", False, "unknown")]
    assert second["turn"] == 4
    again = run(FOLD, events_of(record([Resumed(3, "b"), TurnStarted(3), OVER])))
    assert [turn["notes"] for turn in again["turns"]] == [["resumed at turn 3 by worker b"]]
