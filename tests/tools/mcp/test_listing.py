"""Of a server's tools only those are offered that may be and that are what they were."""

from wholecall.tools.mcp.definitions import Definition
from wholecall.tools.mcp.events import Refused
from wholecall.tools.mcp.listing import TOOLS, Listing, arrange, choose
from wholecall.tools.mcp.pins import Pins
from wholecall.tools.mcp.server import McpServer

SERVER = McpServer("s", command="x", deny=("secret",))


def define(name: str, canonical: str = "{}") -> Definition:
    return Definition(name=name, parameters={"type": "object"}, canonical=canonical)


def test_what_the_operator_denies_is_not_even_mentioned() -> None:
    assert choose(SERVER, [define("a"), define("secret")]) == Listing((define("a"),))


def test_what_cannot_be_offered_is_refused_with_a_reason() -> None:
    broken = Definition(name="b", parameters={"type": "strong"})
    listing = choose(SERVER, [define("a"), define("a", "other"), broken])
    assert listing.definitions == (define("a"),)
    twice, flawed = listing.refused
    assert twice == Refused("s", "a", "the server names it twice")
    assert (flawed.tool, "schema" in flawed.reason) == ("b", True)


def test_no_server_fills_the_models_context() -> None:
    listing = choose(SERVER, [define(str(number)) for number in range(TOOLS + 2)])
    assert len(listing.definitions) == TOOLS
    assert [refused.tool for refused in listing.refused] == [str(TOOLS), str(TOOLS + 1)]


def test_what_changed_is_withheld() -> None:
    _, pins = arrange("s", Listing((define("a"), define("b"))), pins=Pins())
    shelf, after = arrange("s", Listing((define("a", "new"), define("b"), define("c"))), pins=pins)
    assert list(shelf.offered) == ["b", "c"]
    assert [change.tool for change in shelf.changed] == ["a"]
    assert after.find("s", "a") == define("a").digest
    assert after.find("s", "c") == define("c").digest
