"""Dialects from files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from wholecall.dialect_files import (
    LONGEST,
    learn_dialect,
    load_chat_template,
    load_dialect,
    save_dialect,
)
from wholecall.dialects.dialect_registry import DIALECTS
from wholecall.dialects.rescue import parse_text
from wholecall.errors import UnusableDialect

TEMPLATES = Path(__file__).parent / "dialects" / "templates"
HERMES = (TEMPLATES / "hermes.jinja").read_text(encoding="utf-8")
CALL = '<tool_call>{"name": "find", "arguments": {"query": "x"}}</tool_call>'


@pytest.mark.parametrize("template", ["hermes", "deepseek_v3", "kimi_k2", "llama3"])
def test_a_template_is_learned(template: str) -> None:
    source = (TEMPLATES / f"{template}.jinja").read_text(encoding="utf-8")
    learned = learn_dialect(source, name="mine", tokens={"bos_token": "<s>"})
    assert learned.dialect.name == "mine"
    assert learned.known_as


@pytest.mark.parametrize(
    ("template", "why"),
    [
        (
            (TEMPLATES / "lines.jinja").read_text(encoding="utf-8"),
            "a form of its own: 'CALL zqfind",
        ),
        ((TEMPLATES / "silent.jinja").read_text(encoding="utf-8"), "does not write the calls"),
        ("{{ raise_exception('not for me') }}", "does not take an answer in words: not for me"),
    ],
)
def test_what_cannot_be_learned_says_why(template: str, why: str) -> None:
    with pytest.raises(UnusableDialect, match=why):
        learn_dialect(template)


def test_a_dialect_that_was_saved_is_loaded_and_read_with(tmp_path: Path) -> None:
    learned = learn_dialect(HERMES, name="mine")
    save_dialect(learned.dialect, tmp_path / "mine.json")
    dialect = load_dialect(tmp_path / "mine.json")
    assert dialect == learned.dialect
    assert [call.name for call in parse_text(dialect, CALL).calls] == ["find"]


FIELDS = {"tool_calls": {"open": "<tool_call>", "close": "</tool_call>", "content": "json"}}
TOKENIZER = {"bos_token": {"content": "<s>"}, "eos_token": None}

# what holds, the name of a file, what is in it
FILES: list[tuple[str, str, Any]] = [
    ("a chat template", "mine.jinja", HERMES),
    ("a response template", "mine.json", {"fields": FIELDS}),
    (
        "a tokenizer with a response template",
        "mine.json",
        {"chat_template": "…", "response_template": {"fields": FIELDS}},
    ),
    ("a tokenizer with a chat template", "mine.json", {"chat_template": HERMES, **TOKENIZER}),
    (
        "a tokenizer with several",
        "mine.json",
        {"chat_template": [{"name": "default", "template": HERMES}]},
    ),
    (
        "a tokenizer with one for tools",
        "mine.json",
        {
            "chat_template": [
                {"name": "default", "template": "…"},
                {"name": "tool_use", "template": HERMES},
            ]
        },
    ),
]


@pytest.mark.parametrize(
    ("name", "content"), [row[1:] for row in FILES], ids=[row[0] for row in FILES]
)
def test_every_kind_of_file(tmp_path: Path, name: str, *, content: Any) -> None:
    path = tmp_path / name
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    dialect = load_dialect(path)
    assert dialect.name == "mine"
    assert [call.name for call in parse_text(dialect, CALL).calls] == ["find"]


REFUSED: list[tuple[str, str, str]] = [
    ("mine.txt", "so", "neither JSON nor a .jinja file"),
    ("mine.json", "{}", "no response_template with fields"),
    ("mine.json", '{"chat_template": 1}', "the chat_template is no text"),
    ("mine.json", '{"chat_template": []}', "the chat_template is no text"),
    ("mine.json", '{"chat_template": [1, {"name": "default"}]}', "the chat_template is no text"),
    ("mine.json", '{"wholecall_dialect": 1}', "missing required field"),
    ("mine.json", "x" * (8 * LONGEST + 1), "too long"),
]


@pytest.mark.parametrize(("name", "content", "why"), REFUSED, ids=[row[2] for row in REFUSED])
def test_what_is_no_dialect_is_refused(
    tmp_path: Path, name: str, *, content: str, why: str
) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(UnusableDialect, match=why):
        load_dialect(tmp_path / name)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UnusableDialect, match=r"cannot be read: No such file or directory$"):
        load_dialect(tmp_path / "none.json")
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe\xfa")
    with pytest.raises(UnusableDialect, match="cannot be read"):
        load_dialect(str(tmp_path / "bytes.json"))


def test_where_a_chat_template_is_found(tmp_path: Path) -> None:
    assert load_chat_template(TEMPLATES / "hermes.jinja") == (HERMES, {})
    path = tmp_path / "tokenizer_config.json"
    path.write_text(json.dumps({"chat_template": "x", **TOKENIZER}), encoding="utf-8")
    template, tokens = load_chat_template(path)
    assert template == "x"
    assert tokens == {"bos_token": "<s>", "eos_token": "", "pad_token": "", "unk_token": ""}
    path.write_text("{}", encoding="utf-8")
    with pytest.raises(UnusableDialect, match="holds no chat_template"):
        load_chat_template(path)
    path.write_text("{", encoding="utf-8")
    with pytest.raises(UnusableDialect, match="is no JSON"):
        load_chat_template(path)


def test_names_of_the_package_stay_theirs() -> None:
    assert "mine" not in DIALECTS
