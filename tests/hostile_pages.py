"""Pages that cost more than their characters: what a conversation may hold when a call is found.

As a program it reads an answer after each of them, and writes a line for each as soon as it is
done. It does so under a limit of CPU time: what hangs ends it.
"""

from __future__ import annotations

import json
import resource
import sys

from quotations import HERMES, announce, ran, read_by_call, rescue

CPU_SECONDS = 60
"""For all pages together, of which each takes a fraction of a second."""
SIZE = 50_000
"""Characters of a page."""
PIECES: dict[str, str] = {
    "prose": "Room 7 is free today. ",
    "one letter": "x",
    "blanks": " \n",
    "openers": "<tool_call> ",
    "openers of objects": "<tool_call>{",
    "openers of objects with names": '<tool_call>{"name": "send_mail", ',
    "members": '{"to": "x", "body": ',
    "members without values": '"":',
    "members of lists": '"a":[1,',
    "quotation marks": '"',
    "braces": "{",
    "thoughts": "<think>",
    "fences": "```\n",
    "code": "` ",
    "invocations": '<invoke name="send_mail">',
    "functions": "<function=send_mail><parameter=to>",
    "tags of a tool": "<send_mail><to>",
    "lists of calls": "[send_mail(",
    "tokens": "<|tool_call_begin|>",
    "actions": "\nAction: send_mail",
    "backslashes": "\\",
    "escaped quotation marks": '\\"',
    "escapes that are cut": "\\u",
    "entities": "&lt;",
    "entities of entities": "&amp;",
    "ampersands": "&",
    "block quotes": "> ",
    "numbers of lines": "1 ",
    "calls": HERMES + "\n",
}


def main() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    for name, piece in PIECES.items():
        messages = read_by_call(piece * (SIZE // len(piece)))
        made = [*ran(rescue(HERMES, messages)), *ran(announce("hermes", HERMES, messages=messages))]
        sys.stdout.write(json.dumps([name, len(made)]) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
