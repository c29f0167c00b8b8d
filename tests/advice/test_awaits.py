"""The program's line of an await that asyncio's own code made."""

from pathlib import Path

from sundog.advice.awaits import await_behind, with_awaits
from sundog.advice.run import WAIT
from sundog.advice.source import Sources
from tests.advice.runs import Script

GATHERED = """import asyncio
async def one(x):
    refs = [f.remote(x, n) for n in range(3)]
    return await asyncio.gather(*refs)
async def main():
    for x in xs:
        await one(x)
"""


def test_the_await_behind_a_submission_is_the_line_of_a_wait_in_asyncio(tmp_path: Path) -> None:
    file = tmp_path / "prog.py"
    file.write_text(GATHERED)
    script = Script()
    for _ in range(3):
        refs = [script.submit("f", 0.1, site=f"{file}:3 in one") for _ in range(3)]
        script.get(*refs, site="/usr/lib/python3.12/asyncio/tasks.py:695 in _wrap_awaitable")
    ops = with_awaits(script.run(), Sources()).programs[0].ops
    assert {op.site for op in ops if op.kind == WAIT} == {f"{file}:4"}


def test_of_a_function_that_only_submits_it_is_the_await_of_its_caller(tmp_path: Path) -> None:
    file = tmp_path / "prog.py"
    file.write_text(
        "def send(xs):\n    return [f.remote(x) for x in xs]\n"
        "async def main():\n    refs = send(xs)\n    return await asyncio.gather(*refs)\n"
    )
    assert await_behind(Sources(), f"{file}:2 in send") == f"{file}:5"


def test_a_program_without_an_await_keeps_what_was_recorded(tmp_path: Path) -> None:
    file = tmp_path / "prog.py"
    file.write_text("refs = [f.remote(x) for x in xs]\n")
    assert await_behind(Sources(), f"{file}:1 in <module>") == ""
