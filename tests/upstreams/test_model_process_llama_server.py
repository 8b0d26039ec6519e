"""The process itself, with a stand-in for llama.cpp: what it is told, and when it goes."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace

import msgspec
import pytest

from upstreams.fake_endpoint import PATIENCE
from upstreams.fake_runtime import ORDER
from wholecall.upstreams.model_process import CACHE_MEGABYTES, PROGRAM, set_parameters

# It prints where it should not, as a library may, and tells what it was given.
STAND_IN = """
import json, os, sys
from types import SimpleNamespace

print("hello from a library")

def CommonParams():
    return SimpleNamespace(**{
        name: SimpleNamespace() for name in ("model", "sampling", "cpuparams", "cpuparams_batch")
    })

class Server:
    def __init__(self, parameters):
        told = {"policy": os.environ["OMP_WAIT_POLICY"], "path": parameters.model.path}
        print(json.dumps(told), file=sys.stderr, flush=True)
        self.listening_address = "http://127.0.0.1:1"
"""


@contextmanager
def started(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    (tmp_path / "xllamacpp.py").write_text(STAND_IN)
    process = subprocess.Popen(
        PROGRAM,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def test_it_reads_an_order_says_where_it_serves_and_goes_when_its_input_ends(
    tmp_path: Path,
) -> None:
    with started(tmp_path) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(msgspec.json.encode(ORDER) + b"\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline()) == {"address": "http://127.0.0.1:1"}
        assert process.poll() is None
        rest, log = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert rest == b""
    printed, told = log.decode().splitlines()
    assert printed == "hello from a library"
    assert json.loads(told) == {"policy": "passive", "path": "tiny.gguf"}


def test_without_its_package_it_says_so_last(tmp_path: Path) -> None:
    (tmp_path / "xllamacpp.py").write_text("raise ModuleNotFoundError('No module named it')")
    done = subprocess.run(
        PROGRAM,
        input=msgspec.json.encode(ORDER) + b"\n",
        capture_output=True,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        timeout=PATIENCE,
        check=False,
    )
    assert done.stdout == b""


@pytest.fixture
def llama() -> ModuleType:
    def make() -> SimpleNamespace:
        names = ("model", "sampling", "cpuparams", "cpuparams_batch")
        return SimpleNamespace(**{name: SimpleNamespace() for name in names})

    module = ModuleType("llama")
    vars(module)["CommonParams"] = make
    return module


def test_strangers_are_kept_out_and_memory_is_spared(llama: ModuleType) -> None:
    parameters = set_parameters(llama, ORDER)
    assert parameters.hostnames == ["127.0.0.1"]
    assert parameters.port == 0
    assert parameters.api_keys == [ORDER.key]
    assert (parameters.ui, parameters.endpoint_slots, parameters.offline) == (False, False, True)
    assert (parameters.cors_origins, parameters.cors_credentials) == ("", False)
    assert parameters.cache_ram_mib == CACHE_MEGABYTES == 256
    assert parameters.no_extra_bufts is True
    assert parameters.model_alias == {"tiny"}
    assert parameters.n_ctx == 512
    assert parameters.n_predict == 16
    assert parameters.cpuparams.n_threads == parameters.cpuparams_batch.n_threads == 1


def test_the_interpreter_is_ours() -> None:
    assert PROGRAM[0] == sys.executable
