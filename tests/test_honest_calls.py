"""Honest calls run: conversations of agents in which a result holds what the next call needs.

The other side of test_provenance.py. A path stands in a listing, a text in the file that is edited,
an id in what a search found, and the user has dictated the call. None of that is a quotation.
"""

from __future__ import annotations

import json
from typing import Any, TypeAlias

import pytest

from quotations import Conversation, announce, ran, rescue
from wholecall.dialects.rescue import encode
from wholecall.events import JSON

# A step of a conversation: what the user says, or a call with its result.
Step: TypeAlias = str | tuple[str, dict[str, JSON], str]
Row: TypeAlias = tuple[str, list[Step], str, dict[str, JSON]]


def _tool(name: str, *parameters: str) -> dict[str, Any]:
    properties: dict[str, Any] = {each: {} for each in parameters}
    schema = {"type": "object", "properties": properties}
    return {"type": "function", "function": {"name": name, "parameters": schema}}


TOOLS = [
    _tool("read_file", "path", "offset"),
    _tool("write_file", "path", "content"),
    _tool("edit_file", "path", "old_text", "new_text"),
    _tool("delete_file", "path"),
    _tool("move_file", "source", "target"),
    _tool("list_directory", "path"),
    _tool("search_files", "pattern", "path"),
    _tool("run_command", "command"),
    _tool("run_tests", "target"),
    _tool("git_commit", "message"),
    _tool("web_search", "query"),
    _tool("fetch_url", "url"),
    _tool("open_result", "id"),
    _tool("send_mail", "to", "subject", "body"),
    _tool("reply_to_mail", "message_id", "body"),
    _tool("create_issue", "title", "body", "labels"),
    _tool("close_issue", "number", "comment"),
    _tool("create_event", "title", "start", "attendees"),
    _tool("book_flight", "flight_id", "passenger"),
    _tool("query_database", "sql"),
    _tool("update_record", "table", "id", "fields"),
    _tool("set_level", "n"),
    _tool("reset"),
    _tool("weather", "city", "days"),
    _tool("mcp__github__get_file", "owner", "repo", "path"),
    _tool("browser_click", "ref"),
    _tool("browser_type", "ref", "text"),
]

CODE = """def total(prices):
    result = 0
    for price in prices:
        result += price
    return result
"""
MAILS = (
    '[{"message_id": "AAMkAGI2TG93AAA1", "from": "ada@example.org", '
    '"subject": "Dinner on Friday", "body": "Shall we meet at eight at the Rose?"}]'
)
SNAPSHOT = '- textbox "Search the catalogue" [ref=e112]\n- button "Search the catalogue" [ref=e113]'
ROWS = "order_id | customer_name | shipping_address\n48213377 | Ada Lovelace | 12 Rose Street, Oslo"
# what holds, the conversation, the call that follows: its name and arguments
HONEST: list[Row] = [
    # ── files
    (
        "a path of a listing is read",
        ["Explain it.", ("list_directory", {"path": "."}, "src/app/main.py\nsrc/app/settings.py")],
        "read_file",
        {"path": "src/app/settings.py"},
    ),
    (
        "a path of a listing in JSON is read",
        [
            "Explain it.",
            ("list_directory", {"path": "."}, '{"entries": [{"path": "src/application/main.py"}]}'),
        ],
        "read_file",
        {"path": "src/application/main.py"},
    ),
    (
        "a file is edited with its own text",
        ["Use sum.", ("read_file", {"path": "shop/totals.py"}, CODE)],
        "edit_file",
        {
            "path": "shop/totals.py",
            "old_text": CODE,
            "new_text": "def total(p):\n    return sum(p)\n",
        },
    ),
    (
        "a file is written as it was",
        ["Copy it to b.py.", ("read_file", {"path": "a.py"}, CODE)],
        "write_file",
        {"path": "b.py", "content": CODE},
    ),
    (
        "a file with line numbers is edited",
        [
            "Rename it.",
            (
                "read_file",
                {"path": "src/config.yaml"},
                "     1\tname: warehouse-service\n     2\tport: 80",
            ),
        ],
        "edit_file",
        {
            "path": "src/config.yaml",
            "old_text": "name: warehouse-service",
            "new_text": "name: stock-service",
        },
    ),
    (
        "a text of a file is deleted",
        [
            "Remove the old flag.",
            (
                "read_file",
                {"path": "src/flags.ini"},
                "[flags]\nuse_legacy_parser = true\nverbose = no",
            ),
        ],
        "edit_file",
        {"path": "src/flags.ini", "old_text": "use_legacy_parser = true\n", "new_text": ""},
    ),
    (
        "a file that a search found is moved",
        [
            "Move it to docs.",
            ("search_files", {"pattern": "*.md"}, "notes/architecture-overview.md"),
        ],
        "move_file",
        {"source": "notes/architecture-overview.md", "target": "docs/architecture-overview.md"},
    ),
    (
        "a file that a search found is deleted",
        [
            "Delete the backup.",
            ("search_files", {"pattern": "*.bak"}, "data/customers-2024.csv.bak"),
        ],
        "delete_file",
        {"path": "data/customers-2024.csv.bak"},
    ),
    (
        "a search with a text of a file",
        ["Where is it used?", ("read_file", {"path": "a.py"}, CODE)],
        "search_files",
        {"pattern": "def total(prices):", "path": "."},
    ),
    (
        "the rest of a file that was cut",
        [
            "Explain it.",
            (
                "read_file",
                {"path": "src/application/main.py"},
                "import os\n… (src/application/main.py goes on: use read_file, offset 2001)",
            ),
        ],
        "read_file",
        {"path": "src/application/main.py", "offset": 2001},
    ),
    (
        "the rest of a file, as the tool shows it",
        [
            "Explain it.",
            (
                "read_file",
                {"path": "/home/ada/project/server.log"},
                'line\n[truncated. Use read_file(path="/home/ada/project/server.log", offset=500)]',
            ),
        ],
        "read_file",
        {"path": "/home/ada/project/server.log", "offset": 500},
    ),
    (
        "a failed edit is tried with the path that the tool suggests",
        [
            "Use sum.",
            (
                "edit_file",
                {"path": "totals.py", "old_text": "a", "new_text": "b"},
                "edit_file: no such file totals.py. Did you mean shop/checkout/totals.py?",
            ),
        ],
        "edit_file",
        {"path": "shop/checkout/totals.py", "old_text": "a", "new_text": "b"},
    ),
    (
        "a deletion is tried with the path that the tool suggests",
        [
            "Delete the settings.",
            (
                "delete_file",
                {"path": "settings.yaml"},
                "delete_file failed: settings.yaml not found, try config/production/settings.yaml",
            ),
        ],
        "delete_file",
        {"path": "config/production/settings.yaml"},
    ),
    (
        "a file about the tools is edited",
        [
            "Fix the typo.",
            (
                "read_file",
                {"path": "docs/tools.md"},
                "# edit_file\n\nChanges a flie in place. Give the old text and the new text.",
            ),
        ],
        "edit_file",
        {
            "path": "docs/tools.md",
            "old_text": "Changes a flie in place.",
            "new_text": "Changes a file in place.",
        },
    ),
    (
        "the code of a tool is read further",
        [
            "Review it.",
            (
                "search_files",
                {"pattern": "def "},
                "src/tools/file_tools.py:12: def read_file(path):\nsrc/tools/file_tools.py:40: …",
            ),
        ],
        "read_file",
        {"path": "src/tools/file_tools.py"},
    ),
    (
        "the tests of a tool are run",
        [
            "Does it work?",
            (
                "search_files",
                {"pattern": "run_tests"},
                "tests/test_runner.py:3: def test_run_tests():",
            ),
        ],
        "run_tests",
        {"target": "tests/test_runner.py"},
    ),
    (
        "a listing that names the tool",
        [
            "What is in it?",
            (
                "list_directory",
                {"path": "/workspace/project"},
                "/workspace/project/read_file.py\n/workspace/project/handlers.py",
            ),
        ],
        "read_file",
        {"path": "/workspace/project/handlers.py"},
    ),
    (
        "a second part of a file",
        [
            "Read all of it.",
            ("read_file", {"path": "big.txt", "offset": 0}, "one"),
            ("read_file", {"path": "big.txt", "offset": 100}, "two"),
        ],
        "read_file",
        {"path": "big.txt", "offset": 200},
    ),
    # ── commands
    (
        "a command of a README is run",
        [
            "Set it up.",
            (
                "read_file",
                {"path": "README.md"},
                "## Setup\n\n```\npip install -r requirements.txt\n```",
            ),
        ],
        "run_command",
        {"command": "pip install -r requirements.txt"},
    ),
    (
        "a command that an error suggests",
        [
            "Push it.",
            (
                "run_command",
                {"command": "git push"},
                "fatal: no upstream branch. Use\n\n    git push --set-upstream origin main\n",
            ),
        ],
        "run_command",
        {"command": "git push --set-upstream origin main"},
    ),
    (
        "a command is run again with another option",
        ["Test it.", ("run_command", {"command": "pytest -q"}, "3 failed")],
        "run_command",
        {"command": "pytest -q -x --maxfail=1"},
    ),
    (
        "a command is run again as it was",
        ["Is it up?", ("run_command", {"command": "systemctl status nginx"}, "activating")],
        "run_command",
        {"command": "systemctl status nginx"},
    ),
    (
        "a failed command, whose error names the tool, is run with a longer timeout",
        [
            "Build it.",
            (
                "run_command",
                {"command": "make all"},
                "run_command: 'make all' timed out after 30 seconds",
            ),
        ],
        "run_command",
        {"command": "timeout 600 make all"},
    ),
    (
        "the message of a commit is that of a file",
        ["Commit it.", ("read_file", {"path": "MESSAGE"}, "Fix the total of empty carts")],
        "git_commit",
        {"message": "Fix the total of empty carts"},
    ),
    (
        "a test that failed is run alone",
        [
            "Test it.",
            ("run_tests", {"target": "."}, "FAILED tests/test_shop.py::test_total_of_two"),
        ],
        "run_tests",
        {"target": "tests/test_shop.py::test_total_of_two"},
    ),
    # ── the web
    (
        "an address that a search found is opened",
        [
            "What is new in Python?",
            ("web_search", {"query": "python"}, "1. https://docs.python.org/3/whatsnew/3.14.html"),
        ],
        "fetch_url",
        {"url": "https://docs.python.org/3/whatsnew/3.14.html"},
    ),
    (
        "an id that a search found is opened",
        [
            "Find the contract.",
            (
                "web_search",
                {"query": "contract"},
                '[{"id": "doc_8f14e45fceea167a", "title": "Contract"}]',
            ),
        ],
        "open_result",
        {"id": "doc_8f14e45fceea167a"},
    ),
    (
        "an id, and a hint how to open it",
        [
            "Find the contract.",
            (
                "web_search",
                {"query": "contract"},
                "Contract (id 8f14e45f-ceea-467a-9575-25a1f5c2b8c1). Use open_result to read it.",
            ),
        ],
        "open_result",
        {"id": "8f14e45f-ceea-467a-9575-25a1f5c2b8c1"},
    ),
    (
        "a link of a page is followed",
        [
            "Read the next chapter.",
            (
                "fetch_url",
                {"url": "https://a.example/1"},
                '<a href="https://a.example/chapter/2">Next</a>',
            ),
        ],
        "fetch_url",
        {"url": "https://a.example/chapter/2"},
    ),
    (
        "an address of a redirect is followed, as the tool says",
        [
            "Read it.",
            (
                "fetch_url",
                {"url": "http://example.org/guide"},
                "It redirects to https://www.example.org/en/guide/start. Call fetch_url with it.",
            ),
        ],
        "fetch_url",
        {"url": "https://www.example.org/en/guide/start"},
    ),
    (
        "a page's suggestion is followed, because the user asked for it",
        [
            "Do what https://a.example/setup says.",
            (
                "fetch_url",
                {"url": "https://a.example/setup"},
                "Run this first: docker compose up --detach database",
            ),
        ],
        "run_command",
        {"command": "docker compose up --detach database"},
    ),
    (
        "a search with words of a page",
        ["Who is that?", ("fetch_url", {"url": "u"}, "Written by Margaret Heafield Hamilton.")],
        "web_search",
        {"query": "Margaret Heafield Hamilton"},
    ),
    (
        "a search is repeated with other words",
        ["Trains?", ("web_search", {"query": "trains oslo bergen"}, "No results.")],
        "web_search",
        {"query": "trains oslo bergen timetable 2026"},
    ),
    (
        "a button of a page is clicked",
        ["Search for tea.", ("fetch_url", {"url": "https://shop.example"}, SNAPSHOT)],
        "browser_click",
        {"ref": "e113"},
    ),
    (
        "a field of a page is filled",
        ["Search for tea.", ("fetch_url", {"url": "https://shop.example"}, SNAPSHOT)],
        "browser_type",
        {"ref": "e112", "text": "Search the catalogue for tea"},
    ),
    (
        "a page about agents is summarised in a file",
        [
            "Save a summary to notes.md.",
            (
                "fetch_url",
                {"url": "u"},
                "Agents have tools such as write_file, read_file and send_mail.",
            ),
        ],
        "write_file",
        {"path": "notes.md", "content": "Agents have tools: write_file, read_file, send_mail."},
    ),
    (
        "a page is saved whole",
        [
            "Save the page to page.txt.",
            ("fetch_url", {"url": "u"}, "The lighthouse was built in 1864 and is painted red."),
        ],
        "write_file",
        {"path": "page.txt", "content": "The lighthouse was built in 1864 and is painted red."},
    ),
    # ── mail, calendar, issues
    (
        "a mail is answered",
        ["Tell her yes.", ("query_database", {"sql": "select * from mails"}, MAILS)],
        "reply_to_mail",
        {"message_id": "AAMkAGI2TG93AAA1", "body": "Yes, see you at eight."},
    ),
    (
        "a mail is forwarded with its text",
        ["Forward it to bob@example.org.", ("query_database", {"sql": "s"}, MAILS)],
        "send_mail",
        {
            "to": "bob@example.org",
            "subject": "Dinner on Friday",
            "body": "Shall we meet at eight at the Rose?",
        },
    ),
    (
        "an event of what a mail says",
        ["Put it into my calendar.", ("query_database", {"sql": "s"}, MAILS)],
        "create_event",
        {
            "title": "Dinner on Friday",
            "start": "2026-11-20T20:00",
            "attendees": ["ada@example.org"],
        },
    ),
    (
        "a mail that was refused is sent to the right address",
        [
            "Tell Ada.",
            (
                "send_mail",
                {"to": "ada@exmaple.org", "subject": "Hi", "body": "We meet at eight."},
                "send_mail: the domain exmaple.org does not exist",
            ),
        ],
        "send_mail",
        {"to": "ada@example.org", "subject": "Hi", "body": "We meet at eight."},
    ),
    (
        "a mail that was refused is sent again as it was",
        [
            "Tell Ada.",
            (
                "send_mail",
                {"to": "ada@example.org", "subject": "Hi", "body": "We meet at eight."},
                "send_mail to ada@example.org ('Hi', 'We meet at eight.') failed: try again later",
            ),
        ],
        "send_mail",
        {"to": "ada@example.org", "subject": "Hi", "body": "We meet at eight."},
    ),
    (
        "an issue of a log",
        ["File it.", ("read_file", {"path": "e.log"}, "TypeError: unsupported operand type(s)")],
        "create_issue",
        {
            "title": "TypeError: unsupported operand type(s)",
            "body": "Seen today.",
            "labels": ["bug"],
        },
    ),
    (
        "an issue that a listing has is closed",
        [
            "Close the fixed one.",
            ("query_database", {"sql": "s"}, "#4211 Totals are wrong (fixed)"),
        ],
        "close_issue",
        {"number": 4211, "comment": "Fixed."},
    ),
    (
        "an issue about a tool is closed",
        [
            "Close the duplicate.",
            ("query_database", {"sql": "s"}, "#4211 close_issue does not work with long comments"),
        ],
        "close_issue",
        {"number": 4211, "comment": "A duplicate of #4200."},
    ),
    # ── data
    (
        "a row is changed",
        ["She moved to Fjord Road 7.", ("query_database", {"sql": "s"}, ROWS)],
        "update_record",
        {"table": "orders", "id": 48213377, "fields": {"shipping_address": "Fjord Road 7, Oslo"}},
    ),
    (
        "a query with the names of a schema",
        [
            "How many orders?",
            ("query_database", {"sql": "show tables"}, "orders(order_id, customer_name)"),
        ],
        "query_database",
        {"sql": "SELECT count(order_id) FROM orders"},
    ),
    (
        "a query with the column that the error suggests",
        [
            "Who bought it?",
            (
                "query_database",
                {"sql": "SELECT customer FROM orders"},
                'column "customer" does not exist. HINT: Perhaps you meant "orders.customer_name".',
            ),
        ],
        "query_database",
        {"sql": "SELECT customer_name FROM orders"},
    ),
    (
        "a query is sent again after an error that shows it",
        [
            "Count them.",
            (
                "query_database",
                {"sql": "SELECT count(*) FROM shipments WHERE late"},
                "query_database: SELECT count(*) FROM shipments WHERE late: connection lost",
            ),
        ],
        "query_database",
        {"sql": "SELECT count(*) FROM shipments WHERE late"},
    ),
    (
        "a flight that was found is booked",
        [
            "Book the first one for Ada.",
            (
                "web_search",
                {"query": "flights"},
                "SK-4035-2026-11-21 08:10 Oslo to Bergen, 49 euros",
            ),
        ],
        "book_flight",
        {"flight_id": "SK-4035-2026-11-21", "passenger": "Ada Lovelace"},
    ),
    (
        "a flight is booked as the search explains",
        [
            "Book the first one for Ada Lovelace.",
            (
                "web_search",
                {"query": "flights"},
                "OFF-77120-SK4035-20261121: 49 euros. Call book_flight with the passenger's name.",
            ),
        ],
        "book_flight",
        {"flight_id": "OFF-77120-SK4035-20261121", "passenger": "Ada Lovelace"},
    ),
    (
        "a file in a repository that a listing names",
        [
            "Show the workflow.",
            (
                "web_search",
                {"query": "q"},
                '{"owner": "example-org", "repo": "warehouse", "path": ".github/workflows/ci.yml"}',
            ),
        ],
        "mcp__github__get_file",
        {"owner": "example-org", "repo": "warehouse", "path": ".github/workflows/ci.yml"},
    ),
    # ── what the user dictates
    (
        "the user dictates the call in words",
        ["Use send_mail: to ada@example.org, subject Dinner, body We meet at eight."],
        "send_mail",
        {"to": "ada@example.org", "subject": "Dinner", "body": "We meet at eight."},
    ),
    (
        "the user dictates a command",
        ["Run `docker compose restart database` with run_command, please."],
        "run_command",
        {"command": "docker compose restart database"},
    ),
    (
        "the user dictates a path",
        ["read_file src/application/main.py"],
        "read_file",
        {"path": "src/application/main.py"},
    ),
    (
        "the user dictates the content of a file",
        [f"Write this to shop/totals.py:\n\n```python\n{CODE}```"],
        "write_file",
        {"path": "shop/totals.py", "content": CODE},
    ),
    (
        "the user names a number",
        ["Set the level to 5."],
        "set_level",
        {"n": 5},
    ),
    (
        "the user says it again",
        ["Set the level to 5.", ("set_level", {"n": 5}, "The level is 5."), "Now set it to 6."],
        "set_level",
        {"n": 6},
    ),
    (
        "the user wants the same again",
        ["Reset it.", ("reset", {}, "It was reset."), "Once more, please."],
        "reset",
        {},
    ),
    (
        "the user asks in another language",
        ["Wie wird das Wetter in Oslo in den nächsten 3 Tagen?"],
        "weather",
        {"city": "Oslo", "days": 3},
    ),
    (
        "the user's list is worked through",
        [
            "Weather for Oslo, Bergen and Trondheim, please.",
            ("weather", {"city": "Oslo"}, "Rain."),
            ("weather", {"city": "Bergen"}, "Rain."),
        ],
        "weather",
        {"city": "Trondheim"},
    ),
    # ── longer runs
    (
        "a call that failed for its types is repeated",
        [
            "Set it to 7.",
            ("set_level", {"n": "seven"}, "set_level: n must be a number, not 'seven'"),
        ],
        "set_level",
        {"n": 7},
    ),
    (
        "a fix after a test",
        [
            "Make the tests pass.",
            ("run_tests", {"target": "tests"}, "tests/test_shop.py:14: assert total([]) == 0"),
            ("read_file", {"path": "shop/totals.py"}, CODE),
        ],
        "edit_file",
        {
            "path": "shop/totals.py",
            "old_text": "    result = 0\n",
            "new_text": "    result = 0.0\n",
        },
    ),
    (
        "the tests after a fix",
        [
            "Make the tests pass.",
            ("run_tests", {"target": "tests/test_shop.py"}, "1 failed"),
            (
                "edit_file",
                {"path": "a", "old_text": "b", "new_text": "c"},
                "edit_file: a was changed",
            ),
        ],
        "run_tests",
        {"target": "tests/test_shop.py"},
    ),
    (
        "an edit is taken back",
        [
            "Take it back.",
            (
                "edit_file",
                {"path": "shop/totals.py", "old_text": "result = 0", "new_text": "result = 0.0"},
                "Edited shop/totals.py:\n- result = 0\n+ result = 0.0",
            ),
        ],
        "edit_file",
        {"path": "shop/totals.py", "old_text": "result = 0.0", "new_text": "result = 0"},
    ),
    (
        "an edit is taken back, and the result names the tool",
        [
            "Take it back.",
            (
                "edit_file",
                {
                    "path": "shop/checkout.py",
                    "old_text": "return gross_price(cart)",
                    "new_text": "return net_price(cart)",
                },
                "edit_file shop/checkout.py\n- return gross_price(cart)\n+ return net_price(cart)",
            ),
        ],
        "edit_file",
        {
            "path": "shop/checkout.py",
            "old_text": "return net_price(cart)",
            "new_text": "return gross_price(cart)",
        },
    ),
    (
        "a summary of three files is written",
        [
            "Summarise the notes.",
            ("list_directory", {"path": "notes"}, "notes/monday.md\nnotes/tuesday.md"),
            ("read_file", {"path": "notes/monday.md"}, "We met the architects of the new harbour."),
            ("read_file", {"path": "notes/tuesday.md"}, "The architects want more time."),
        ],
        "write_file",
        {"path": "notes/summary.md", "content": "The architects of the harbour want more time."},
    ),
    (
        "a plan of the agent's own is carried out",
        [
            "Clean up.",
            (
                "write_file",
                {"path": "plan.md", "content": "1. delete tmp/cache/sessions.db"},
                "Written.",
            ),
            ("read_file", {"path": "plan.md"}, "1. delete tmp/cache/sessions.db"),
        ],
        "delete_file",
        {"path": "tmp/cache/sessions.db"},
    ),
    (
        "a log of earlier calls is looked at, and the next one differs",
        [
            "What did we send? Send the same to bob@example.org.",
            (
                "read_file",
                {"path": "calls.log"},
                "send_mail to=ada@example.org subject=Dinner body=We meet at eight at the Rose.",
            ),
        ],
        "send_mail",
        {"to": "bob@example.org", "subject": "Dinner", "body": "We meet at eight at the Rose."},
    ),
    (
        "a tool is used as its description shows it, with other values",
        [
            "Where is total used?",
            ("list_directory", {"path": "."}, "search_files pattern=TODO path=src"),
        ],
        "search_files",
        {"pattern": "total(", "path": "src"},
    ),
]
# These look like attacks: a page that asks for `delete_file`, with the path beside it, is no other.
REFUSED = {
    "the rest of a file, as the tool shows it",
    "a deletion is tried with the path that the tool suggests",
    "the tests of a tool are run",
    "an id, and a hint how to open it",
    "an edit is taken back, and the result names the tool",
}
REFUSED_LEAKS = {*REFUSED, "a file in a repository that a listing names"}
DIALECTS = (
    *("hermes", "qwen3_xml", "glm45", "llama3_json", "mistral", "deepseek_v31", "kimi_k2"),
    *("minimax_m2", "pythonic", "gemma4", "seed_oss", "anthropic_xml", "json_generic"),
)


def converse(steps: list[Step]) -> Conversation:
    messages: Conversation = []
    for number, step in enumerate(steps):
        if isinstance(step, str):
            messages.append({"role": "user", "content": step})
            continue
        name, arguments, result = step
        function = {"name": name, "arguments": json.dumps(arguments)}
        call = {"id": f"call_{number}", "type": "function", "function": function}
        messages += [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"call_{number}", "content": result},
        ]
    return messages


@pytest.mark.parametrize("row", HONEST, ids=[row[0] for row in HONEST])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_honest_call_runs(row: Row, dialect: str) -> None:
    title, steps, name, arguments = row
    said, messages = encode(dialect, [(name, arguments)]), converse(steps)
    announced = ran(announce(dialect, said, messages=messages, tools=TOOLS))
    assert announced == ([] if title in REFUSED else [arguments])
    leaked = ran(rescue(said, messages, tools=TOOLS))
    assert leaked == ([] if title in REFUSED_LEAKS else [arguments])


def test_so_many_honest_calls_are_refused_and_no_more() -> None:
    assert (len(HONEST), len(REFUSED), len(REFUSED_LEAKS)) == (70, 5, 6)
