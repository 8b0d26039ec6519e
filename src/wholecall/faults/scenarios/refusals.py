"""HTTP errors, bodies that are not answers, and models that never end."""

from __future__ import annotations

from wholecall.faults.scenarios.phrases import FINAL, MAIL, OSLO, answer, calls, later, runs
from wholecall.faults.script import Answer, Expected, Scenario, ToolRun

_PAGE = "<html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>\n"
_EMPTY = answer(reason="stop")


def _refusal(status: int, **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(status=status, headers=named)


SCENARIOS = (
    Scenario(
        name="rate-limited",
        sentence="429 with `Retry-After: 1`; then all is well.",
        turns=((_refusal(429, retry_after="1"), calls(MAIL)), (FINAL,)),
        expected=later(MAIL, may_give_up=True),
    ),
    Scenario(
        name="rate-limited-for-an-hour",
        sentence="429 with `Retry-After: 3600`: nobody should wait that long.",
        turns=((_refusal(429, retry_after="3600"),),),
        expected=Expected(error=True),
    ),
    Scenario(
        name="server-error",
        sentence="500; then all is well.",
        turns=((_refusal(500), calls(MAIL)), (FINAL,)),
        expected=later(MAIL, may_give_up=True),
    ),
    Scenario(
        name="server-error-always",
        sentence="500, however often one asks.",
        turns=((_refusal(500),),),
        expected=Expected(error=True),
    ),
    Scenario(
        name="server-error-after-call",
        sentence="A call ran, and the next request gets a 500 twice; the call runs once.",
        turns=((calls(MAIL),), (_refusal(500), _refusal(500), FINAL)),
        expected=Expected(runs=(MAIL,), may_give_up=True),
    ),
    Scenario(
        name="overloaded",
        sentence="529, as Anthropic says it; then all is well.",
        turns=((_refusal(529, retry_after="1"), calls(MAIL)), (FINAL,)),
        expected=later(MAIL, may_give_up=True),
    ),
    Scenario(
        name="unauthorized",
        sentence="401: asking again is useless.",
        turns=((_refusal(401),),),
        expected=Expected(error=True),
    ),
    Scenario(
        name="forced-choice-refused",
        sentence="A request that forces a call is answered by a 400; any other is served.",
        turns=((calls(MAIL),), (FINAL,)),
        expected=Expected(runs=(MAIL,), may_give_up=True),
        refuses_choice=True,
    ),
    Scenario(
        name="page-instead",
        sentence="A proxy's HTML page comes with a status of 200; then all is well.",
        turns=((Answer(body=_PAGE), calls(MAIL)), (FINAL,)),
        expected=later(MAIL, may_give_up=True),
    ),
    Scenario(
        name="empty-answer",
        sentence="The first answer holds nothing at all; asked again, all is well.",
        turns=((_EMPTY, calls(MAIL)), (FINAL,)),
        expected=later(MAIL, may_give_up=True),
    ),
    Scenario(
        name="identical-calls",
        sentence="The model makes the same call again and again, as long as it has tools.",
        turns=((calls(OSLO),),),
        expected=Expected(runs=(OSLO,) * 4, first=(OSLO,)),
        closing=FINAL,
    ),
    Scenario(
        name="wrong-calls",
        sentence="The model makes the same wrong call again and again, as long as it has tools.",
        turns=((calls(ToolRun("send_email", {"to": "ada@example.org"})),),),
        expected=runs(),
        closing=FINAL,
    ),
)
