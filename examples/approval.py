"""A person decides: mail to strangers leaves only after a yes."""

import asyncio

import wholecall
from wholecall import Call, tool

COLLEAGUES = ("ada@example.org", "bob@example.org")


def is_to_stranger(call: Call) -> bool:
    return call.arguments["to"] not in COLLEAGUES


@tool(approve=is_to_stranger)  # or `approve=True`: every call of it
def send_email(to: str, body: str) -> str:
    """Send an email. It cannot be undone."""
    print(f"  sending {body!r} to {to}")
    return "sent"


async def ask_person(call: Call) -> bool:
    """Anything but True is a no: an exception here, too."""
    question = f"Run {call.name}({dict(call.arguments)})? [y/N] "
    return await asyncio.to_thread(input, question) == "y"


async def main() -> None:
    prompt = "Invite ada@example.org and eve@example.com to dinner."
    result = await wholecall.ask("openai/gpt-x", prompt, tools=[send_email], approve=ask_person)
    for ended in result.ended:
        print(f"{ended.call.arguments['to']}: {ended.status.value}")
    print(result.text)


if __name__ == "__main__":
    asyncio.run(main())
