"""`wholecall keys` as its users meet it."""

import json
import re
import time
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest

from wholecall.cli import main
from wholecall.proxy.http.api_keys import Key, KeyStore

FILE = "wholecall-keys.sqlite"


class Ran(NamedTuple):
    code: int | str | None
    out: str
    err: str


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("WHOLECALL_CONFIG", raising=False)


class Runner:
    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *arguments: str) -> Ran:
        with pytest.raises(SystemExit) as exited:
            main.main(["keys", *arguments])
        said = self._capsys.readouterr()
        return Ran(exited.value.code or 0, said.out, said.err)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Runner:
    return Runner(capsys)


def check(text: str) -> Key | None:
    with closing(KeyStore(FILE)) as store:
        return store.check(text)


def test_a_key_is_printed_alone_so_that_a_script_can_take_it(run: Runner) -> None:
    ran = run("create", "--name", "ops")
    assert ran.code == 0
    assert re.fullmatch(r"wc_[\w-]{43}\n", ran.out)
    key = check(ran.out.strip())
    assert key is not None
    assert (key.name, key.models, key.tools) == ("ops", ("*",), ())
    assert (key.rpm, key.concurrent, key.expires) == (None, None, None)
    assert f"{key.id}: models *; tools none" in ran.err
    assert ran.out.strip() not in ran.err


def test_a_key_has_the_rights_that_were_asked_for(run: Runner) -> None:
    before = time.time()
    ran = run(
        *("create", "--name", "ops", "--model", "gpt-*", "--model", "local", "--tool", "search"),
        *("--rpm", "60", "--concurrent", "4", "--expires", "30d"),
    )
    key = check(ran.out.strip())
    assert key is not None
    assert (key.models, key.tools, key.rpm, key.concurrent) == (
        ("gpt-*", "local"),
        ("search",),
        60,
        4,
    )
    assert key.expires is not None
    assert before <= key.expires - 30 * 86_400 <= time.time()
    assert "models gpt-*, local; tools search; 60 requests a minute; 4 at a time" in ran.err


@pytest.mark.parametrize("span", ["3y", "0d", "d", "1.5h", "-1d", "9999999w", ""])
def test_what_is_no_span_of_time_is_refused(run: Runner, span: str) -> None:
    ran = run("create", "--name", "x", "--expires", span)
    assert (ran.code, ran.out) == (2, "")
    assert "write 12h, 30d or 8w" in ran.err
    assert not Path(FILE).exists()


@pytest.mark.parametrize("option", ["--rpm", "--concurrent"])
def test_a_limit_of_nothing_is_refused(run: Runner, option: str) -> None:
    assert run("create", "--name", "x", option, "0").code == 2


def test_keys_are_listed_without_their_texts(run: Runner) -> None:
    texts = [
        run("create", "--name", "first").out.strip(),
        run("create", "--name", "second", "--expires", "12h").out.strip(),
    ]
    with closing(KeyStore(FILE)) as store:
        store.create(Key(id="", name="third\x1b[31m", expires=5.0))
    listed = run("list")
    first, second, third = listed.out.splitlines()
    assert "  first  (since 20" in first
    assert "  second  (until 20" in second
    assert "  third\\x1b[31m  (ended 1970-01-01 00:00 UTC)" in third
    assert not any(text in listed.out for text in texts)


def test_keys_are_listed_as_json(run: Runner) -> None:
    run("create", "--name", "first", "--rpm", "5")
    [line] = run("list", "--json").out.splitlines()
    shown = json.loads(line)
    assert set(shown) == {
        *(
            "id",
            "name",
            "models",
            "tools",
            "may_approve",
            "rpm",
            "concurrent",
            "expires",
            "created",
            "revoked",
        )
    }
    assert (shown["name"], shown["rpm"], shown["revoked"]) == ("first", 5, None)


def test_the_right_to_approve_is_given_by_name(run: Runner) -> None:
    made = [run("create", "--name", "a", *more) for more in ([], ["--may-approve"])]
    keys = [check(ran.out.strip()) for ran in made]
    assert [key is not None and key.may_approve for key in keys] == [False, True]
    assert ["may approve calls" in ran.err for ran in made] == [False, True]


def test_a_revoked_key_is_closed_and_stays_in_the_list(run: Runner) -> None:
    text = run("create", "--name", "ops").out.strip()
    key = check(text)
    assert key is not None
    assert run("revoke", key.id).out == f"{key.id} is revoked\n"
    assert check(text) is None
    assert "  ops  (revoked 20" in run("list").out
    again = run("revoke", key.id)
    assert (again.code, again.out) == (1, "")
    assert f"there is no active key {key.id}" in again.err


def test_the_configuration_says_where_the_keys_are_and_needs_no_other_keys(run: Runner) -> None:
    Path("sub").mkdir()
    Path("sub/my.yaml").write_text(
        "keys: {path: mine.sqlite}\nmodels: {a: {upstream: openai/x, api_key: '${K1_NOT_SET}'}}",
        "utf-8",
    )
    assert run("create", "--name", "ops", "--config", "sub/my.yaml").code == 0
    assert Path("sub/mine.sqlite").exists()
    assert not Path(FILE).exists()
    assert "ops" in run("list", "--config", "sub/my.yaml").out


def test_who_looks_for_keys_where_there_are_none_makes_no_file(run: Runner) -> None:
    assert run("list") == (0, "", f"wholecall: there are no keys in {FILE}\n")
    assert run("list", "--json") == (0, "", f"wholecall: there are no keys in {FILE}\n")
    assert run("revoke", "key_1") == (
        1,
        "",
        "wholecall: there is no active key key_1\n",
    )
    assert list(Path().iterdir()) == []
