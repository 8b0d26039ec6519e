"""How well a model on this machine calls tools, natively and in each way of ours.

    .venv/bin/python bench/eval/evaluate.py                       all questions, the usual ways
    .venv/bin/python bench/eval/evaluate.py --share 0.2 --seconds 600
    .venv/bin/python bench/eval/evaluate.py --ways hermes --write    and put the rows into the docs
    .venv/bin/python bench/eval/evaluate.py --questions held-out     those of before the tuning

One turn a question, temperature 0, the four demo tools. A call is right if it is the tool
and the argument that were asked for, and no other call stands beside it.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

sys.path.insert(0, str(Path(__file__).parents[1]))

from eval.held_out import HELD_OUT
from eval.questions import GROUPS, Groups, Question, Verdict, judge, sample
from tables import DOCS, markdown, replace_section
from wholecall.agent.turn import sender_for
from wholecall.events import Outcome, Text, collect
from wholecall.messages import Message, Request, Role
from wholecall.scripted_model import TOOLS
from wholecall.tools.toolbox import Toolbox
from wholecall.upstreams.base import Upstream
from wholecall.upstreams.providers import find_upstream

# One prompted dialect of each family: JSON in tags, XML two ways, bare JSON, Python.
WAYS = (
    "constrained",
    "hermes",
    "anthropic_xml",
    "native",
    "llama3_json",
    "pythonic",
    "qwen3_xml",
)
MAX_TOKENS = 160
SEED = 7
PAGE = "local-models.md"
LISTS: dict[str, Groups] = {"evaluation": GROUPS, "held-out": HELD_OUT}
"""The questions, by the section of the page that has their table."""
HEADER = ["way", *GROUPS, *(verdict.value for verdict in list(Verdict)[1:]), "a question"]


@dataclass(slots=True)
class Score:
    """How one way did."""

    asked: Counter[str] = field(default_factory=Counter)
    right: Counter[str] = field(default_factory=Counter)
    verdicts: Counter[Verdict] = field(default_factory=Counter)
    seconds: float = 0.0

    def row(self, way: str) -> list[str]:
        groups = [f"{self.right[group]}/{self.asked[group]}" for group in GROUPS]
        wrong = [self.verdicts[each] for each in list(Verdict)[1:]]
        pace = self.seconds / (self.asked.total() or 1)
        return [way, *groups, *map(str, wrong), f"{pace:.1f} s"]


Tell: TypeAlias = Callable[[str, Score], None]
"""Hears how a way did."""


async def ask(upstream: Upstream, model: str, *, question: Question, way: str) -> Outcome:
    messages = (Message(Role.USER, (Text(question.text),)),)
    request = Request(
        model=model,
        messages=messages,
        tools=tuple(Toolbox(TOOLS).offer.values()),
        temperature=0.0,
        max_tokens=MAX_TOKENS,
    )
    sent = sender_for(model, messages, emulation=way)(request)
    async with upstream.answer(sent.request) as answer:
        reader = sent.make_reader(answer)
        events = [event async for chunk in answer.chunks for event in reader.feed(chunk)]
    return collect([*events, *reader.end()])


async def evaluate(
    model: str,
    ways: Sequence[str],
    *,
    groups: Mapping[str, list[Question]],
    seconds: float,
    tell: Tell,
) -> None:
    """One way after the other, so that each finds its prompt in the model's cache. Each has an
    equal part of the time, and asks as much of the same list as it can."""
    upstream, name = find_upstream(model)
    try:
        for way in ways:
            until = time.monotonic() + seconds / len(ways)
            tell(way, await _score(upstream, name, way=way, groups=groups, until=until))
    finally:
        await upstream.close()


async def _score(
    upstream: Upstream, name: str, *, way: str, groups: Mapping[str, list[Question]], until: float
) -> Score:
    score = Score()
    for group, question in _mixed(groups):
        began = time.monotonic()
        if began > until:
            break
        outcome = await ask(upstream, name, question=question, way=way)
        verdict = judge(question, outcome)
        score.seconds += time.monotonic() - began
        score.asked[group] += 1
        score.right[group] += verdict is Verdict.RIGHT
        score.verdicts[verdict] += 1
        calls = [(call.name, dict(call.arguments)) for call in outcome.calls]
        said = calls or outcome.text[:80] or outcome.rejected
        print(f"{way:12} {verdict.value:14} {question.text!r}: {said}", file=sys.stderr, flush=True)
    return score


def _mixed(groups: Mapping[str, list[Question]]) -> Iterator[tuple[str, Question]]:
    """The groups in equal shares, so that a run that is cut short has some of each."""
    placed = [
        ((number + 0.5) / len(questions), group, question)
        for group, questions in groups.items()
        for number, question in enumerate(questions)
    ]
    yield from (
        (group, question) for _, group, question in sorted(placed, key=lambda each: each[0])
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="local/qwen2.5-coder-1.5b")
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--questions", choices=LISTS, default=next(iter(LISTS)))
    parser.add_argument("--share", type=float, default=1.0, help="of every group of questions")
    parser.add_argument("--seconds", type=float, default=7200.0, help="for all ways together")
    parser.add_argument(
        "--write", action="store_true", help="put the table into docs/local-models.md"
    )
    options = parser.parse_args()
    section = options.questions
    page = (DOCS / PAGE).read_text("utf-8") if options.write else ""
    rows = read_rows(page, section)

    def tell(way: str, score: Score) -> None:
        rows[way] = score.row(way)
        table = markdown(HEADER, list(rows.values()))
        print(table, end="\n\n", flush=True)
        if options.write:
            told = f"`{options.model}`, temperature 0; right answers of those asked, by group:"
            replace_section(PAGE, section, body=f"{told}\n\n{table}")

    ways = options.ways.split(",")
    groups = sample(LISTS[section], options.share, seed=SEED)
    work = evaluate(options.model, ways, groups=groups, seconds=options.seconds, tell=tell)
    asyncio.run(work)


def read_rows(page: str, section: str, *, header: Sequence[str] = HEADER) -> dict[str, list[str]]:
    """The rows that the page has, by way: those that are not asked now stay."""
    found = page.partition(f"<!-- {section} -->")[2].partition(f"<!-- /{section} -->")[0]
    lines = [line.strip("| ").split(" | ") for line in found.splitlines() if line.startswith("|")]
    return {line[0]: line for line in lines[2:]} if lines[:1] == [[*header]] else {}


if __name__ == "__main__":
    main()
