"""How often a whole run with a model on this machine ends with the right answer, in each way.

    .venv/bin/python bench/eval/evaluate_answers.py                        held-out, all ways
    .venv/bin/python bench/eval/evaluate_answers.py --ways constrained --share 0.2
    .venv/bin/python bench/eval/evaluate_answers.py --questions development
    .venv/bin/python bench/eval/evaluate_answers.py --ways qwen3_xml --write

Temperature 0, the four demo tools, the limits that a local model has. What is judged is the text
of the final answer, by the rules beside each question.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, takewhile
from pathlib import Path
from typing import TypeAlias

sys.path.insert(0, str(Path(__file__).parents[1]))

from eval.evaluate import read_rows
from eval.final_answers import (
    ABSTAIN,
    DEVELOPMENT,
    HELD_OUT_ANSWERS,
    Asked,
    AskedGroups,
    is_markup,
)
from tables import DOCS, markdown, replace_section
from wholecall.agent.api import ask
from wholecall.errors import RunFailed, UpstreamError
from wholecall.events import Call
from wholecall.scripted_model import TOOLS
from wholecall.upstreams.base import PREFIX, Upstream
from wholecall.upstreams.local_upstream import LocalUpstream, find_file
from wholecall.upstreams.model_process import LocalSettings

WAYS = ("constrained", "qwen3_xml", "anthropic_xml", "hermes", "pythonic", "native")
PAGE = "local-models.md"
SECTION = "final-answers"
LISTS: dict[str, AskedGroups] = {"held-out": HELD_OUT_ANSWERS, "development": DEVELOPMENT}
MAX_TOKENS = 200
"""Of one answer: a model that goes on and on is wrong anyway."""
HEADER = ["way", *HELD_OUT_ANSWERS, "right", "markup", "no needless call", "a question"]


@dataclass(slots=True)
class Score:
    """How one way did."""

    asked: Counter[str] = field(default_factory=Counter)
    right: Counter[str] = field(default_factory=Counter)
    markup: int = 0
    abstained: int = 0
    seconds: float = 0.0

    def row(self, way: str) -> list[str]:
        asked = self.asked.total() or 1
        groups = [f"{self.right[group]}/{self.asked[group]}" for group in HELD_OUT_ANSWERS]
        right = f"{100 * self.right.total() / asked:.0f} %"
        abstained = f"{self.abstained}/{self.asked[ABSTAIN]}"
        return [way, *groups, right, f"{self.markup}", abstained, f"{self.seconds / asked:.0f} s"]


Tell: TypeAlias = Callable[[str, Score], None]
"""Hears how a way did."""


async def answer(
    upstream: Upstream, model: str, *, question: str, way: str
) -> tuple[str, tuple[Call, ...]]:
    """Return the final answer, and the calls that ran on the way there."""
    try:
        result = await ask(
            model,
            question,
            tools=TOOLS,
            emulate=way,
            upstream=upstream,
            temperature=0.0,
            max_tokens=MAX_TOKENS,
        )
    except RunFailed as failed:
        return failed.text, failed.ran
    except UpstreamError as failed:
        return f"({failed})", ()
    return result.text, tuple(ended.call for ended in result.ended)


@dataclass(frozen=True, slots=True)
class Effort:
    """How much of the questions is asked, and with what."""

    threads: int = 0
    seconds: float = 7200.0
    """For each way."""
    skip: int = 0
    """Questions at the beginning that were asked before."""


async def evaluate(
    model: str, ways: Sequence[str], *, groups: AskedGroups, effort: Effort, tell: Tell
) -> None:
    """One way after the other, so that each finds its prompt in the model's cache."""
    path = find_file(model.removeprefix(PREFIX), os.environ)
    upstream = LocalUpstream(path, settings=LocalSettings(threads=effort.threads))
    try:
        for way in ways:
            tell(way, await _score(upstream, model, way=way, groups=groups, effort=effort))
    finally:
        await upstream.close()


async def _score(
    upstream: Upstream, model: str, *, way: str, groups: AskedGroups, effort: Effort
) -> Score:
    score, until = Score(), time.monotonic() + effort.seconds
    for group, asked in takewhile(
        lambda _: time.monotonic() < until, islice(mix(groups), effort.skip, None)
    ):
        await _ask(upstream, model, way=way, group=group, asked=asked, score=score)
    return score


async def _ask(  # noqa: PLR0913 - what is asked, of whom, and where it is counted
    upstream: Upstream, model: str, *, way: str, group: str, asked: Asked, score: Score
) -> None:
    began = time.monotonic()
    said, calls = await answer(upstream, model, question=asked.text, way=way)
    seconds = time.monotonic() - began
    right = asked.is_right(said)
    score.seconds += seconds
    score.asked[group] += 1
    score.right[group] += right
    score.markup += is_markup(said)
    score.abstained += group == ABSTAIN and not calls
    ran = ", ".join(
        f"{call.name}({', '.join(map(str, call.arguments.values()))})" for call in calls
    )
    verdict = "right" if right else "WRONG"
    print(
        f"{way:12} {verdict} {seconds:4.0f} s [{group}] {asked.text} | {ran} | {said[:300]!r}",
        file=sys.stderr,
        flush=True,
    )


def mix(groups: AskedGroups) -> Iterator[tuple[str, Asked]]:
    """Yield the groups in equal shares, so that a run that is cut short has some of each."""
    placed = [
        ((place + 0.5) / len(questions), group, asked)
        for group, questions in groups.items()
        for place, asked in enumerate(questions)
    ]
    yield from ((group, asked) for _, group, asked in sorted(placed, key=lambda each: each[0]))


def sample(groups: AskedGroups, share: float) -> Mapping[str, tuple[Asked, ...]]:
    """Return the first part of every group."""
    return {
        name: questions[: max(1, round(len(questions) * share))]
        for name, questions in groups.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", default="local/qwen2.5-coder-1.5b")
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--questions", choices=LISTS, default=next(iter(LISTS)))
    parser.add_argument("--share", type=float, default=1.0, help="of every group of questions")
    parser.add_argument("--only", default="", help="a kind, or a part of a question")
    parser.add_argument("--seconds", type=float, default=7200.0, help="for each way")
    parser.add_argument("--skip", type=int, default=0, help="questions that were asked before")
    parser.add_argument("--threads", type=int, default=0, help="of the model; 0: all cores")
    parser.add_argument(
        "--write", action="store_true", help="put the table into docs/local-models.md"
    )
    options = parser.parse_args()
    page = (DOCS / PAGE).read_text("utf-8") if options.write else ""
    rows = read_rows(page, SECTION, header=HEADER)

    def tell(way: str, score: Score) -> None:
        rows[way] = score.row(way)
        table = markdown(HEADER, list(rows.values()))
        print(table, end="\n\n", flush=True)
        if options.write:
            told = f"`{options.model}`, temperature 0; right final answers of those asked, by kind:"
            replace_section(PAGE, SECTION, body=f"{told}\n\n{table}")

    groups = {
        name: tuple(asked for asked in questions if options.only in f"{name} {asked.text}")
        for name, questions in sample(LISTS[options.questions], options.share).items()
    }
    work = evaluate(
        options.model,
        options.ways.split(","),
        groups=groups,
        effort=Effort(options.threads, options.seconds, options.skip),
        tell=tell,
    )
    asyncio.run(work)


if __name__ == "__main__":
    main()
