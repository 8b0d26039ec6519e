"""A dialect from renderings of a chat template: found by comparing, and then proven.

Each family says whether what the template writes is of its shape. The first dialect that
reads the template's own calls back as they were is the one. Without that proof nothing is
learned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from wholecall.core.values import JSON
from wholecall.dialects.declaration import Dialect, template_of
from wholecall.dialects.encoding import encode_calls
from wholecall.dialects.learned.bodies import Bodies, cut_bodies
from wholecall.dialects.learned.comparing import marks_in
from wholecall.dialects.learned.json_shapes import learn_headed, learn_objects
from wholecall.dialects.learned.literal_shapes import learn_gemma, learn_python
from wholecall.dialects.learned.probes import CALLS, IDS, NAMES, TOOLS, Probe
from wholecall.dialects.learned.shape import CallShape
from wholecall.dialects.learned.tag_shapes import learn_tags
from wholecall.dialects.parsing import parse_text
from wholecall.dialects.registry import DIALECTS
from wholecall.errors import UnusableDialect

_FAMILIES: tuple[Callable[[str, str | None], CallShape | None], ...] = (
    learn_objects,
    learn_headed,
    learn_gemma,
    learn_python,
    learn_tags,
)
PROOF: tuple[tuple[str, dict[str, JSON]], ...] = (
    (NAMES[0], {"zqplace": 'Paris, "old" town\nline <2>', "zqtopic": "007"}),
    (NAMES[1], {"zqplace": "{}"}),
)
"""Calls that are written in what was learned, and read back."""


@dataclass(frozen=True, slots=True)
class Learned:
    """A dialect, and what shows that it is the template's."""

    dialect: Dialect
    rendered: str
    """The template's own calls, which were read back as they were."""
    encoded: str
    """Other calls, written in the dialect, which were read back as they were."""
    known_as: str = ""
    """A dialect that comes with the package and writes the same, but for white space."""
    single: bool = False
    """The template takes only one call in an answer."""


def learn(renderings: Mapping[Probe, str], *, name: str) -> Learned:
    """Return the dialect of the renderings, or raise UnusableDialect with the reason."""
    bodies = cut_bodies(renderings)
    _refuse_unnamed(bodies.one)
    reasons: list[str] = []
    for family in _FAMILIES:
        try:
            shape = family(bodies.one, bodies.two)
            if shape is not None:
                return _proven(_dialect(shape, bodies, name=name), bodies)
        except UnusableDialect as error:
            reasons.append(str(error))
    seen = bodies.one.strip()[:200]
    why = f" ({reasons[-1]})" if reasons else ""
    raise UnusableDialect(f"the template writes a call in a form of its own{why}: {seen!r}")


def _refuse_unnamed(body: str) -> None:
    if NAMES[0] in body:
        return
    if IDS[0] in body:
        raise UnusableDialect("the template writes the id of a call in the place of its name")
    raise UnusableDialect("the template does not write the calls of an answer")


def _dialect(shape: CallShape, bodies: Bodies, *, name: str) -> Dialect:
    openers = {opener for written in shape.written for opener in written.openers}
    template = shape.template
    between = (template.between.strip(),) if marks_in(template.between) else ()
    after = marks_in(template.after)
    dropped = dict.fromkeys((*shape.dropped, *bodies.dropped, *between, *after))
    if bodies.result is not None:
        template = replace(template, result=bodies.result)
    return Dialect(
        name=name,
        written=shape.written,
        bare=shape.bare,
        reasoning=bodies.reasoning,
        dropped=tuple(mark for mark in dropped if mark not in openers),
        template=template,
        models=name,
    )


# ── The proof ───────────────────────────────────────────────────────────────────────


def _proven(dialect: Dialect, bodies: Bodies) -> Learned:
    calls = CALLS[:1] if bodies.two is None else CALLS
    proof = PROOF[: len(calls)]
    rendered = bodies.two or bodies.one
    _prove(dialect, bodies.one, calls=CALLS[:1])
    _prove(dialect, rendered, calls=calls)
    encoded = encode_calls(template_of(dialect), proof)
    _prove(dialect, encoded, calls=proof)
    return Learned(
        dialect,
        rendered=rendered,
        encoded=encoded,
        known_as=_known_as(rendered, calls),
        single=bodies.two is None,
    )


def _prove(dialect: Dialect, text: str, *, calls: Iterable[tuple[str, Mapping[str, JSON]]]) -> None:
    outcome = parse_text(dialect, text, tools=TOOLS)  # type: ignore[arg-type]  # JSON objects
    read = [(call.name, dict(call.arguments)) for call in outcome.calls]
    if read != list(calls) or outcome.rejected or outcome.text.strip():
        raise UnusableDialect(f"what was learned does not read {text.strip()[:200]!r} back")


def _known_as(rendered: str, calls: Iterable[tuple[str, Mapping[str, JSON]]]) -> str:
    for name, dialect in DIALECTS.items():
        if dialect.template is None:
            continue
        if _squeezed(encode_calls(dialect.template, calls)) == _squeezed(rendered):
            return name
    return ""


def _squeezed(text: str) -> str:
    return "".join(text.split())
