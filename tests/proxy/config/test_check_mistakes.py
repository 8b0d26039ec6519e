"""Every kind of mistake in a configuration, and the whole message that names it.

A message has the file and the line, the path of the setting, what was received and what to write
instead. The rows begin with the line.
"""

from pathlib import Path

import pytest

from configs import load_text
from wholecall.proxy.config.schema import ConfigError

NO_VARIABLE = "${KEY} cannot be used here: only api_key, headers and env take variables"
MODEL = "models: {a: {upstream: openai/x, %s}}"
MISTAKES = {
    # ── Names ──
    "lisen: {}": "1: lisen: there is no such setting; did you mean 'listen'?",
    "\nlisten: {prot: 1}": "2: listen.prot: there is no such setting; did you mean 'port'?",
    "log: {qqq: 1}": (
        '1: log.qqq: there is no such setting; known settings: "level", "format", "bodies"'
    ),
    MODEL % "limits: {turn: 1}": (
        "1: models.a.limits.turn: there is no such setting; did you mean 'turns'?"
    ),
    "tools: [{python: a:b, envv: c}]": (
        '1: tools.0.envv: there is no such setting; known settings: "python"'
    ),
    "models: {a: {}}": "1: models.a: the setting 'upstream' is missing",
    "models:\n  a:\n": "2: models.a: the setting 'upstream' is missing",
    "tools: [{pyton: a:b}]": '1: tools.0: write one of "python", "mcp" here',
    "tools: [{python: a:b, mcp: c}]": '1: tools.0: write one of "python", "mcp" here',
    "tools: [a:b]": '1: tools.0: write one of "python", "mcp" here',
    "tools: [~]": '1: tools.0: write one of "python", "mcp" here',
    # ── Types ──
    "listen: {port: x}": '1: listen.port: "x" is not a whole number from 0 to 65535',
    "listen: {port: 1.5}": "1: listen.port: 1.5 is not a whole number from 0 to 65535",
    "listen: {port: true}": "1: listen.port: true is not a whole number from 0 to 65535",
    "listen: {port: }": "1: listen.port: null is not a whole number from 0 to 65535",
    "listen: {port: [1]}": "1: listen.port: a list is not a whole number from 0 to 65535",
    "listen: {host: {a: b}}": "1: listen.host: a section is not text",
    "listen: {host: 1}": '1: listen.host: 1 is not text; write "1" in quotes',
    "listen: {hosts: [a, true]}": ('1: listen.hosts.1: true is not text; write "true" in quotes'),
    "listen: {port: '80'}": (
        '1: listen.port: "80" is not a whole number from 0 to 65535; write 80 without quotes'
    ),
    "listen: {port: '70000'}": '1: listen.port: "70000" is not a whole number from 0 to 65535',
    "keys: {required: ' true'}": (
        '1: keys.required: " true" is not true or false; write true without quotes'
    ),
    "keys: {required: 1}": "1: keys.required: 1 is not true or false",
    "keys: {required: no}": '1: keys.required: "no" is not true or false',
    "limits: {body_seconds: '5'}": (
        '1: limits.body_seconds: "5" is not a number above 0; write 5 without quotes'
    ),
    "limits: {body_seconds: .inf}": '1: limits.body_seconds: ".inf" is not a number above 0',
    "limits: {body_seconds: 1e999}": ("1: limits.body_seconds: Infinity is not a number above 0"),
    "limits: {body_bytes: 12345678901234567890}": (
        "1: limits.body_bytes: 1.2345678901234567e+19 is not a whole number above 0"
    ),
    "listen: {hosts: a}": '1: listen.hosts: "a" is not a list: write [ … ]',
    "listen: {hosts: {a: b}}": "1: listen.hosts: a section is not a list: write [ … ]",
    "models: [a]": "1: models: a list is not a section with names: write `name: …`",
    MODEL
    % "headers: [a]": "1: models.a.headers: a list is not a section with names: write `name: …`",
    MODEL % "headers: {X-Team: 5}": (
        '1: models.a.headers.X-Team: 5 is not text; write "5" in quotes'
    ),
    MODEL % "headers: {X-Team: [a]}": "1: models.a.headers.X-Team: a list is not text",
    "keys: 5": ('1: keys: 5 is not a section; its settings are "path", "required", "open"'),
    "- a": (
        "1: a list is not a section; its settings are "
        '"listen", "models", "tools", "keys", "limits", "responses", "journal", "log", '
        '"metrics", "inspector"'
    ),
    "journal: {url: mysql://db/runs}": (
        '1: journal.url: "mysql://db/runs" is not a journal: write sqlite:FILE or postgresql://…'
    ),
    "journal: {url: 'sqlite:'}": (
        '1: journal.url: "sqlite:" is not a journal: write sqlite:FILE or postgresql://…'
    ),
    "journal: {url: 'postgresql://me:secret@db/runs'}": (
        "1: journal.url: a key must not be written in the file: "
        "write ${NAME} and set the environment variable NAME"
    ),
    # ── Ranges and words ──
    "listen: {port: 70000}": "1: listen.port: 70000 is not a whole number from 0 to 65535",
    "listen: {port: -1}": "1: listen.port: -1 is not a whole number from 0 to 65535",
    "limits: {concurrent: 0}": "1: limits.concurrent: 0 is not a whole number above 0",
    "limits: {header_count: 9}": ("1: limits.header_count: 9 is not a whole number of at least 10"),
    "limits: {keep_alive_seconds: 16}": (
        "1: limits.keep_alive_seconds: 16 is not a number from 0.1 to 15"
    ),
    MODEL % "limits: {turns: 0}": ("1: models.a.limits.turns: 0 is not a whole number above 0"),
    MODEL % "limits: {seconds: 0}": "1: models.a.limits.seconds: 0 is not a number above 0",
    MODEL % "limits: {turn_retries: -1}": (
        "1: models.a.limits.turn_retries: -1 is not a whole number of at least 0"
    ),
    MODEL % "timeouts: {connect: 0.0}": (
        "1: models.a.timeouts.connect: 0.0 is not a number above 0"
    ),
    "tools: [{mcp: a, command: b, concurrency: 0}]": (
        "1: tools.0.concurrency: 0 is not a whole number above 0"
    ),
    MODEL % "mode: rum": '1: models.a.mode: "rum" is not "gate" or "run"',
    MODEL % "rescue: 1": '1: models.a.rescue: 1 is not "off" or "read_only" or "all"',
    "keys: {open: [/v1]}": ('1: keys.open.0: "/v1" is not "/ready" or "/metrics" or "/inspector"'),
    # ── Keys ──
    MODEL % "api_key: sk-123": (
        "1: models.a.api_key: a key must not be written in the file: write ${NAME} and set "
        "the environment variable NAME"
    ),
    MODEL % "api_key: 5123": (
        "1: models.a.api_key: a key must not be written in the file: write ${NAME} and set "
        "the environment variable NAME"
    ),
    MODEL
    % "api_key: '${MISSING}'": "1: models.a.api_key: the environment variable MISSING is not set",
    MODEL % "base_url: '${KEY}'": (f"1: models.a.base_url: {NO_VARIABLE}"),
    "listen: {hosts: ['${KEY}']}": (f"1: listen.hosts.0: {NO_VARIABLE}"),
    MODEL % "mode: '${KEY}'": (f"1: models.a.mode: {NO_VARIABLE}"),
    MODEL % "limits: '${KEY}'": (f"1: models.a.limits: {NO_VARIABLE}"),
    MODEL % "headers: {Authorization: secret}": (
        "1: models.a.headers.Authorization: this looks like a key, which must not be in "
        "the file: write ${NAME} and set that environment variable"
    ),
    # ── Rules ──
    "models: {a: {upstream: gpt}}": (
        "1: models.a.upstream: the name 'gpt' does not say who answers for it: write openai/gpt, "
        "responses/gpt, anthropic/gpt, ollama/gpt, gemini/gpt, interactions/gpt, bedrock/gpt, "
        "cohere/gpt, litellm/gpt, local/gpt; or give base_url of an endpoint that speaks OpenAI's "
        "chat completions"
    ),
    "models: {a: {upstream: opnai/gpt}}": (
        "1: models.a.upstream: no provider is called 'opnai': did you mean 'openai/gpt'?"
    ),
    "models:\n  a:\n    upstream:openai/x": (
        '2: models.a: "upstream:openai/x" is not a section; write a space after the colon'
    ),
    "models:\n  a:\n    upstream: openai/x\n      mode: gate": (
        "4: this is not valid YAML: mapping values are not allowed here; is the line indented too "
        "far?"
    ),
    "models:\n\ta:": (
        "2: this is not valid YAML: while scanning for the next token, found character '\\t' that "
        "cannot start any token; indent with spaces, not with tabs"
    ),
    MODEL % "base_url: x.example": (
        "1: models.a.base_url: 'x.example' is not an http:// or https:// address: "
        "write it as in http://127.0.0.1:8000/v1"
    ),
    MODEL % "base_url: 'http://u:p@x'": (
        "1: models.a.base_url: an address must not contain a password: use api_key or headers"
    ),
    "tools: [{python: shop}]": (
        '1: tools.0.python: "shop" is not the name of a function: write module:function'
    ),
    "listen: {host: 0.0.0.0, hosts: ['*']}": (
        "1: listen.host: '0.0.0.0' can be reached from other machines: set keys.required: "
        "true and make keys with `wholecall keys create`, or listen on 127.0.0.1"
    ),
    # ── YAML ──
    "a: [": (
        "1: this is not valid YAML: while parsing a flow node, expected the node content, but "
        "found '<stream end>'"
    ),
    "listen: {port: 1}\nlisten: {port: 2}": (
        "2: 'listen' is already set in line 1: keep one of them"
    ),
    "log: {level: ${KEY}}": (
        "1: this is not valid YAML: while parsing a flow mapping, expected ',' or '}', but got "
        "'{'; inside of { } and [ ], ${NAME} needs quotes"
    ),
    "log: !secret x": "1: the tag '!secret' is not allowed: leave it out",
}


@pytest.mark.parametrize("text", MISTAKES)
def test_a_mistake_is_named_with_its_line_and_its_cure(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load_text(tmp_path, text, environ={"KEY": "sk-hidden"})
    [problem] = refused.value.problems
    assert str(problem) == f"{tmp_path / 'wholecall.yaml'}:{MISTAKES[text]}"
    assert not any(secret in str(refused.value) for secret in ("sk-", "5123", "u:p"))


def test_a_setting_that_is_indented_too_little_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        load_text(tmp_path, "models:\n  a:\n  upstream: openai/x")
    [_, second] = map(str, refused.value.problems)
    assert second.endswith(
        "wholecall.yaml:3: models.upstream: \"openai/x\" is not a section; 'upstream' is a setting "
        "of the section above: indent it further"
    )
