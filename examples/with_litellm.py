"""Any provider that LiteLLM reaches: `pip install wholecall[litellm]`, and a prefix."""

import asyncio

import wholecall
from wholecall import tool


@tool
async def book_table(restaurant: str, people: int) -> str:
    """Book a table. It cannot be taken back."""
    print(f"booking {restaurant} for {people}")
    return "booked for eight o'clock"


async def main() -> None:
    # LiteLLM looks for its keys and addresses where it always does, in the environment.
    # It reports a stream that was cut as one that ended well. A call that is not whole does
    # not run all the same: the model is asked again.
    prompt = "Book a table for four at Luigi's."
    result = await wholecall.ask("litellm/openai/gpt-x", prompt, tools=[book_table])
    print(result.text)


if __name__ == "__main__":
    asyncio.run(main())
