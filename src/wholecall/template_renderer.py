"""Render chat templates in a separate process with limits on time and memory."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from wholecall.errors import MissingExtra, UnusableDialect
from wholecall.events import JSON

if TYPE_CHECKING:
    from jinja2 import nodes
    from jinja2.parser import Parser


SECONDS = 10
"""Processor time for all conversations of one template. Real ones need a tenth of a second."""
MEMORY = 1 << 30
"""Address space of the process: Python and jinja2 take a fifth of it."""
LONGEST = 1 << 20
"""Characters of a template, and of what it writes."""


class TemplateRefused(Exception):
    """`raise_exception` of a template: it does not accept this conversation."""


def _refuse(message: str) -> None:
    raise TemplateRefused(message)


def _as_json(value: Any, indent: int | None = None, **_: Any) -> str:
    """As transformers' `tojson`: characters stay themselves, nothing is escaped for HTML."""
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _now(form: str) -> str:
    return datetime.now().astimezone().strftime(form)


def limit_process() -> None:
    """Let the process end when it needs more than a template may."""
    if sys.platform != "win32":  # which has no such limits; the parent's timeout holds there
        import resource  # noqa: PLC0415 - there is none on Windows

        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def serve(order: str) -> Iterator[str]:
    """The lines that answer an order."""
    described = json.loads(order)
    for conversation in described["conversations"]:
        rendering = render_one(described["template"], {**described["tokens"], **conversation})
        yield json.dumps(rendering) + "\n"


def render_one(source: str, names: Mapping[str, JSON]) -> dict[str, JSON]:
    """Return what a template writes for these names, or why it does not."""
    # An optional extra, loaded only in this process.
    import jinja2  # noqa: PLC0415
    from jinja2.ext import Extension  # noqa: PLC0415
    from jinja2.sandbox import ImmutableSandboxedEnvironment  # noqa: PLC0415

    class Generation(Extension):
        """`{% generation %}` marks what a model wrote, for training; it writes nothing."""

        tags: set[str] = {"generation"}  # noqa: RUF012 - jinja2 declares it so

        def parse(self, parser: Parser) -> list[nodes.Node]:
            next(parser.stream)
            return parser.parse_statements(("name:endgeneration",), drop_needle=True)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=["jinja2.ext.loopcontrols", Generation],
    )
    environment.filters["tojson"] = _as_json
    environment.globals.update(raise_exception=_refuse, strftime_now=_now)
    try:
        text = environment.from_string(source).render(names)
    except (TemplateRefused, jinja2.TemplateError) as error:
        return {"text": None, "why": str(error)[:300]}
    except (TypeError, ValueError, ArithmeticError, LookupError, AttributeError) as error:
        # What an expression of the template does with values that it did not expect.
        return {"text": None, "why": f"{type(error).__name__}: {error}"[:300]}
    return {"text": text, "why": ""} if len(text) <= LONGEST else {"text": None, "why": "too long"}


# Render chat templates in a process of their own, with little time and little memory.
#
# A chat template is a program that came with a model: it may loop without end or allocate
# gigabytes. jinja2's sandbox keeps it away from Python's internals, and this process limits its
# time and memory. A failure is reported with a reason.


@dataclass(frozen=True, slots=True)
class Rendering:
    """The output of a template, or the reason why it is missing."""

    text: str | None
    why: str = ""


def render(
    template: str,
    conversations: Sequence[Mapping[str, JSON]],
    *,
    tokens: Mapping[str, str] | None = None,
    timeout: float = 2 * SECONDS,
) -> list[Rendering]:
    """Render conversations: each has `messages`, and what else the template is to see.

    `timeout` is in seconds of the clock; the process has its own limit of processor time.
    """
    if len(template) > LONGEST:
        raise UnusableDialect(f"the chat template has more than {LONGEST} characters")
    order = {"template": template, "tokens": dict(tokens or {}), "conversations": [*conversations]}
    try:
        done = subprocess.run(
            [sys.executable, "-m", "wholecall.template_renderer"],
            input=json.dumps(order),
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise UnusableDialect(f"the chat template did not end within {timeout} s") from None
    if done.returncode:
        raise failure(done.stderr)
    return [Rendering(**json.loads(line)) for line in done.stdout.splitlines()]


def failure(told: str) -> Exception:
    """Return the error in the last line of a failed process."""
    last = (told.strip().splitlines() or ["it needed too much time or memory"])[-1]
    if "jinja2" in last and "ModuleNotFoundError" in last:
        return MissingExtra("chat templates", "learn")
    return UnusableDialect(f"the chat template could not be rendered: {last[:300]}")


if __name__ == "__main__":
    limit_process()
    sys.stdout.writelines(serve(sys.stdin.read()))
