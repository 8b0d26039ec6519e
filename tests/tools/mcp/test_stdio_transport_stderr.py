"""Of what a process writes to its standard error the end is kept, and never blocks it."""

import subprocess
import sys

from tools.mcp_calls import in_loop
from wholecall.tools.mcp.stdio_transport import KEPT, StderrTail


async def capture(program: str) -> str:
    tail = StderrTail()
    with tail.open() as file:
        subprocess.run([sys.executable, "-c", program], stderr=file, check=True, timeout=30)
    return await tail.finish()


@in_loop
async def test_what_was_written_is_kept() -> None:
    assert await capture("import sys; sys.stderr.write('no such file\\n')") == "no such file"


@in_loop
async def test_of_much_only_the_end_is_kept() -> None:
    kept = await capture("import sys; sys.stderr.write('x' * 1_000_000 + 'the end')")
    assert len(kept) == KEPT
    assert kept.endswith("xthe end")


@in_loop
async def test_bytes_that_are_no_text_do_no_harm() -> None:
    program = "import sys; sys.stderr.buffer.write(b'caf\\xff')"
    assert await capture(program) == "caf\N{REPLACEMENT CHARACTER}"


@in_loop
async def test_without_a_process_there_is_nothing() -> None:
    assert await StderrTail().finish() == ""
