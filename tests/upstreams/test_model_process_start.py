"""One process: it loads, it ends, and each way of failing is told in words."""

import os
import re
from pathlib import Path

import msgspec
import pytest

from upstreams.fake_endpoint import PATIENCE
from upstreams.fake_runtime import ORDER, program
from wholecall.errors import MissingExtra, UpstreamError
from wholecall.upstreams.model_process import ModelProcess


def test_it_loads_serves_and_ends(tmp_path: Path) -> None:
    process = ModelProcess(ORDER, program("serves", tmp_path))
    address = process.load(PATIENCE)
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+", address)
    assert process.is_running
    process.stop()
    process.stop()
    assert not process.is_running


@pytest.mark.parametrize(
    ("behaviour", "said"),
    [
        ("fails", "the model tiny.gguf does not run: cmn: bad tensor (exit status 1)"),
        ("fails in other words", "RuntimeError: no (exit status 1)"),
        ("fails silently", "it did not say why (exit status 3)"),
        ("lacks instructions", "this processor lacks instructions"),
        ("is killed", "the memory does not suffice"),
    ],
)
def test_why_a_model_does_not_load_is_told(behaviour: str, said: str, *, tmp_path: Path) -> None:
    order = msgspec.structs.replace(ORDER, path=str(tmp_path / ORDER.path))
    process = ModelProcess(order, program(behaviour, tmp_path))
    with pytest.raises(UpstreamError, match=re.escape(said)) as raised:
        process.load(PATIENCE)
    assert str(tmp_path) not in str(raised.value)
    assert (raised.value.status, raised.value.code) == (503, "local")
    assert not process.is_running


def test_a_missing_package_says_how_to_get_it(tmp_path: Path) -> None:
    process = ModelProcess(ORDER, program("lacks its package", tmp_path))
    with pytest.raises(MissingExtra, match=re.escape("pip install 'wholecall[local]'")):
        process.load(PATIENCE)


def test_one_that_takes_too_long_is_given_up(tmp_path: Path) -> None:
    process = ModelProcess(ORDER, program("hangs", tmp_path))
    with pytest.raises(UpstreamError, match=re.escape("it did not load within 0.1 s")):
        process.load(0.1)
    assert not process.is_running


def test_one_that_does_not_go_is_killed(tmp_path: Path) -> None:
    process = ModelProcess(ORDER, program("is deaf", tmp_path))
    process.load(PATIENCE)
    process.stop(0.1)
    assert not process.is_running


def test_ctrl_c_in_our_terminal_is_not_the_models(tmp_path: Path) -> None:
    process = ModelProcess(ORDER, program("serves", tmp_path))
    try:
        assert os.getpgid(process._process.pid) != os.getpgid(0)
    finally:
        process.stop()
