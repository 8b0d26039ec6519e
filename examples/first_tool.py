"""Your first tool: the model asks for the weather, your function answers, the model explains."""

from typing import Literal

import wholecall
from wholecall import Retry, tool

TEMPERATURES = {"Oslo": 7, "Rome": 21}


@tool(read_only=True)
def weather(city: str, unit: Literal["C", "F"] = "C") -> str:
    """Current temperature in a city."""
    if city not in TEMPERATURES:
        raise Retry(f"there is no city {city!r}; there are {', '.join(TEMPERATURES)}")
    celsius = TEMPERATURES[city]
    return f"{celsius} °C" if unit == "C" else f"{celsius * 9 / 5 + 32:.0f} °F"


def main() -> None:
    # OPENAI_BASE_URL and OPENAI_API_KEY say whom to ask. In an event loop: `await wholecall.ask`.
    result = wholecall.ask_sync("openai/gpt-x", "How warm is it in Oslo?", tools=[weather])
    for ended in result.ended:
        print(f"{ended.call.name}({dict(ended.call.arguments)}): {ended.result.text}")
    print(result.text)


if __name__ == "__main__":
    main()
