"""Calls as tags that have the names of the tools."""

from __future__ import annotations

from wholecall.dialects.declaration import Dialect, Named
from wholecall.dialects.encoding import Notation, Template

_CALL = "<{name}>\n{arguments}</{name}>"

MORPH_XML = Dialect(
    name="morph_xml",
    named=(Named.TAGS, Named.EMPTY),
    template=Template(
        _CALL,
        between="\n",
        notation=Notation.TAGS,
        value="<{key}>{value}</{key}>\n",
        marks=("</{key}>",),
        trims=True,
    ),
    models="any prompted model, Cline and its relatives",
)
YAML_XML = Dialect(
    name="yaml_xml",
    named=(Named.YAML, Named.EMPTY),
    template=Template(_CALL, between="\n", notation=Notation.YAML),
    models="any prompted model",
)

DIALECTS = (MORPH_XML, YAML_XML)
