"""The programs of docs/in-front-of.md, as they stand there, against a real proxy."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from proxy_server import Offer, proxy_in_thread, upstream
from wholecall.faults import start_in_thread

# The libraries and what they import warn about themselves.
pytestmark = [pytest.mark.filterwarnings("default"), pytest.mark.usefixtures("_litellm")]

PAGE = (Path(__file__).parents[2] / "docs" / "in-front-of.md").read_text("utf-8")
ADDRESS = "http://127.0.0.1:8787"
_PROGRAM = re.compile(r"### (?P<title>[^\n]+)\n\n```python no-run\n(?P<source>.*?)```", re.DOTALL)
PROGRAMS = {found["title"]: found["source"] for found in _PROGRAM.finditer(PAGE)}
# What is only made there is used here.
USES = {
    "LangChain": "for model in (by_openai, by_anthropic):\n    print(model.invoke('hi').text)\n",
    "pydantic-ai": "print(agent.run_sync('hi').output)\n",
    "LiteLLM, as a client": "print(answer.choices[0].message.content)\n",
}


@pytest.fixture(scope="module")
def proxy() -> Iterator[str]:
    with start_in_thread() as faults:
        offer = Offer({"fast": upstream("openai/answer-only", faults.base_url)})
        with proxy_in_thread(offer) as url:
            yield url


def test_there_is_a_program_for_every_client() -> None:
    clients = PAGE.partition("## Models")[0]
    assert set(PROGRAMS) == set(re.findall(r"^### (.+)$", clients, re.MULTILINE))


@pytest.mark.parametrize("title", PROGRAMS)
def test_the_program_prints_the_answer(
    proxy: str, title: str, *, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ADDRESS in PROGRAMS[title]
    # Headers are ASCII, and the page shows a key with the rest left out.
    source = PROGRAMS[title].replace(ADDRESS, proxy).replace("wc_…", "any")
    exec(compile(source + USES.get(title, ""), title, "exec"), {})  # noqa: S102 - our own page
    printed = capsys.readouterr().out.split("\n")
    assert "All done." in printed
