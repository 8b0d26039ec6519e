"""Calls that wait for approval, in a real browser."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path

from browser.pages import LANE, PICTURES, Setting, ask, in_browser, looking
from scripted import chunk, ending, opening
from wholecall.events import JSON, Text
from wholecall.messages import Result
from wholecall.proxy.config.schema import InspectorConfig
from wholecall.tools.function_tool import make_tool
from wholecall.tools.tool import Context, Elicitation

CARD = "document.querySelector('.approval')"


class Mailbox:
    def __init__(self) -> None:
        self.sent: list[str] = []

    def send_email(self, to: str) -> str:
        """Send an email."""
        self.sent.append(to)
        return "sent"


def setting(mailbox: Mailbox, *, bodies: bool = True) -> Setting:
    tools = (make_tool(mailbox.send_email, approve=True),)
    return Setting(tools=tools, inspector=InspectorConfig(enabled=True, bodies=bodies))


@in_browser
async def test_a_call_waits_until_it_is_approved_with_the_keyboard(tmp_path: Path) -> None:
    mailbox = Mailbox()
    async with looking(tmp_path, setting(mailbox)) as (served, script, page):
        asked = asyncio.create_task(ask(served))
        call = opening(0, "send_email", arguments='{"to": "ada@example.org"}')
        script.say(call, *ending("tool_calls"), end=True)
        await page.until(CARD)
        shown = await page.ask(f"{CARD}.textContent")
        assert "send_email waits for approval" in shown
        assert "ada@example.org" in shown
        assert "denied in 1:" in shown or "denied in 2:00" in shown
        await page.until(f"{LANE}?.textContent.includes('waits for approval')")
        await page.shoot(PICTURES / "approval.png")
        await page.shoot(PICTURES / "approval-narrow.png", width=390, dark=True)
        assert mailbox.sent == []
        await page.tab_to("Approve send_email")
        script.say(chunk({"content": "Done."}), *ending(), end=True)
        await page.press("Enter")
        await asked
        assert mailbox.sent == ["ada@example.org"]
        await page.until(f"!{CARD}")
        assert await page.ask("document.activeElement.id") == "main"
        await page.until(f"{LANE}.textContent.includes('approved')")


@in_browser
async def test_a_call_is_denied_and_the_model_reads_why(tmp_path: Path) -> None:
    mailbox = Mailbox()
    async with looking(tmp_path, setting(mailbox)) as (served, script, page):
        asked = asyncio.create_task(ask(served))
        for number in range(2):
            call = opening(number, "send_email", arguments=f'{{"to": "{number}"}}')
            script.say(call)
        script.say(*ending("tool_calls"), end=True)
        await page.until("document.querySelectorAll('.approval').length === 2")
        await page.ask(f"{CARD}.querySelector('input').focus()")
        await page.type("Ada is away")
        await page.click("Deny")
        await page.until("document.querySelectorAll('.approval').length === 1")
        script.say(chunk({"content": "Done."}), *ending(), end=True)
        await page.click("Approve")
        await asked
        assert mailbox.sent == ["1"]
        results = [one for one in script.asked[1]["messages"] if one["role"] == "tool"]
        assert "Ada is away" in results[0]["content"]
        await page.until(f"{LANE}.textContent.includes('answer to the approval: Ada is away')")


# The list of calls cannot be read until `mend` is called.
BREAK = """(() => {
  const whole = window.fetch;
  window.fetch = async (path, options) => {
    if (String(path).endsWith("/approvals")) throw new TypeError("cable cut");
    return whole(path, options);
  };
  window.mend = () => { window.fetch = whole; };
})()"""


@in_browser
async def test_a_list_that_cannot_be_read_takes_nothing_from_who_writes(tmp_path: Path) -> None:
    mailbox = Mailbox()
    async with looking(tmp_path, setting(mailbox)) as (served, script, page):
        asked = asyncio.create_task(ask(served))
        script.say(opening(0, "send_email", arguments='{"to": "ada"}'))
        script.say(*ending("tool_calls"), end=True)
        await page.until(CARD)
        await page.ask(f"{CARD}.querySelector('input').focus()")
        await page.type("Ada is")
        await page.ask(BREAK)
        trouble = "document.querySelector('#approvals > .message')"
        await page.until(f"{trouble}?.textContent.includes('cannot be reached')")
        await page.type(" away")
        await page.ask("window.mend()")
        await page.until(f"{trouble}.hidden")
        script.say(chunk({"content": "Done."}), *ending(), end=True)
        await page.click("Deny")
        await asked
        assert mailbox.sent == []
        [result] = [one for one in script.asked[1]["messages"] if one["role"] == "tool"]
        assert "Ada is away" in result["content"]
        await page.until("document.getElementById('approvals').hidden")


@in_browser
async def test_without_bodies_it_says_why_no_arguments_are_seen(tmp_path: Path) -> None:
    mailbox = Mailbox()
    async with looking(tmp_path, setting(mailbox, bodies=False)) as (served, script, page):
        asked = asyncio.create_task(ask(served))
        call = opening(0, "send_email", arguments='{"to": "ada@example.org"}')
        script.say(call, *ending("tool_calls"), end=True)
        await page.until(CARD)
        assert "inspector.bodies is off" in await page.ask(f"{CARD}.textContent")
        assert "ada@example.org" not in await page.ask("document.body.textContent")
        script.say(chunk({"content": "Done."}), *ending(), end=True)
        await page.click("Deny")
        await asked
        assert mailbox.sent == []


@in_browser
async def test_open_runs_are_listed_and_ended(tmp_path: Path) -> None:
    mailbox = Mailbox()
    async with looking(tmp_path, setting(mailbox)) as (served, script, page):
        asked = asyncio.create_task(ask(served))
        call = opening(0, "send_email", arguments='{"to": "ada@example.org"}')
        script.say(call, *ending("tool_calls"), end=True)
        await page.until(CARD)
        await page.ask("location.hash = '#/durable?status=open'")
        rows = "document.querySelector('.runs')"
        await page.until(f"{rows}?.textContent.includes('running')")
        await page.ask(f"{rows}.querySelector('[aria-label^=Cancel]').click()")
        await page.until(
            "document.querySelector('.empty')?.textContent === 'No durable run is open. Show all'"
        )
        await page.ask("location.hash = '#/durable?status=over'")
        await page.until(f"{rows}?.textContent.includes('cancelled')")
        await asked
    assert mailbox.sent == []


FORM: dict[str, JSON] = {
    "type": "object",
    "properties": {
        "day": {"type": "string", "title": "Day"},
        "guests": {"type": "integer"},
        "outside": {"type": "boolean"},
        "meal": {"type": "string", "enum": ["lunch", "dinner"]},
    },
    "required": ["day", "meal"],
}


def asking(mailbox: Mailbox) -> Setting:
    async def ask_user(_: object, context: Context) -> Result:
        message = "Which <b>day</b>?"
        given = await context.elicit(Elicitation(server="tables", message=message, schema=FORM))
        mailbox.sent.append(json.dumps([given.action, given.content]))
        return Result((Text("booked"),))

    tool = replace(make_tool(mailbox.send_email), run=ask_user)
    return Setting(tools=(tool,), inspector=InspectorConfig(enabled=True, bodies=True))


@in_browser
async def test_a_tool_asks_by_a_form(tmp_path: Path) -> None:
    mailbox = Mailbox()
    async with looking(tmp_path, asking(mailbox)) as (served, script, page):
        asked = asyncio.create_task(ask(served))
        call = opening(0, "send_email", arguments='{"to": "ada@example.org"}')
        script.say(call, *ending("tool_calls"), end=True)
        await page.until(CARD)
        shown = await page.ask(f"{CARD}.textContent")
        assert "send_email asks you" in shown
        assert "The server tables asks: Which <b>day</b>?" in shown
        assert "cancelled in" in shown
        await page.until(f"{LANE}?.textContent.includes('asks the user')")
        await page.ask(f"{CARD}.querySelector('[name=guests]').focus()")
        await page.type("4")
        await page.ask(f"{CARD}.querySelector('[name=day]').focus()")
        await page.type("Friday")
        await page.shoot(PICTURES / "elicitation.png")
        script.say(chunk({"content": "Done."}), *ending(), end=True)
        await page.click("Send")
        await asked
        content = {"day": "Friday", "guests": 4, "outside": False, "meal": "lunch"}
        [sent] = mailbox.sent
        assert json.loads(sent) == ["accept", content]
        await page.until(f"!{CARD}")
        await page.until(f"{LANE}.textContent.includes('answered')")
