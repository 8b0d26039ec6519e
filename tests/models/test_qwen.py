"""The default model, where it is in the cache: right calls through emulation."""

from __future__ import annotations

import pytest

from eval.evaluate import ask
from eval.questions import ONE_CALL, Verdict, judge
from models.conftest import Model
from wholecall.upstreams.local_upstream import LocalUpstream

NAME = "local/qwen2.5-coder-1.5b"
LEAST_RIGHT = 27


@pytest.mark.parametrize("way", ["constrained", "hermes", "anthropic_xml"])
def test_nine_calls_in_ten_are_right(qwen: Model, way: str) -> None:
    wrong = []
    for question in ONE_CALL:

        async def answer(upstream: LocalUpstream) -> Verdict:
            outcome = await ask(upstream, NAME, question=question, way=way)  # noqa: B023
            return judge(question, outcome)  # noqa: B023 - it is run before the next question

        if qwen.run(answer) is not Verdict.RIGHT:
            wrong.append(question.text)
    assert len(ONE_CALL) - len(wrong) >= LEAST_RIGHT, wrong
