"""How many gets each turn of an outer loop has."""

import ast
from pathlib import Path

import pytest

from sundog.advice.findings_waits import get_in_loop
from sundog.advice.outer_turns import length_of, turns_of_outer
from sundog.advice.simulator import play
from sundog.advice.source import Source, Sources
from tests.advice.runs import Script

ROUNDS = """import sundog as ray
def run(weights, clients):
    while weights[0] < 9:
        updates = []
        for client in clients:
            updates.append(ray.get(work.remote(client, weights)))
        weights = mean(updates)
"""


def rounds(
    tmp_path: Path, text: str, count: int = 6, each: int = 3, pause_s: float = 0.0
) -> tuple[Script, str]:
    """Rounds of so many gets, one after the other; the program works between two rounds."""
    file = tmp_path / "prog.py"
    file.write_text(text)
    script = Script(cpus=8, cores=8)
    site = f"{file}:6 in run"
    for _ in range(count):
        for _ in range(each):
            script.compute(0.001)
            script.get(script.submit("work", 0.5, site=site), site=site)
        script.compute(pause_s)
    return script, site


def test_the_work_of_one_round_is_done_at_once_and_that_of_the_next_after_it(tmp_path: Path) -> None:
    script, _ = rounds(tmp_path, ROUNDS.replace("in clients:", "in [1, 2, 3]:"))
    [draft] = get_in_loop(script.run(), Sources())
    assert play(draft.run).length_s == pytest.approx(6 * 0.5, rel=0.02)


def test_where_the_text_does_not_tell_the_pauses_between_the_rounds_do(tmp_path: Path) -> None:
    script, site = rounds(tmp_path, ROUNDS, pause_s=0.01)
    assert turns_of_outer(script.ops, (site,), Sources()) == 3


def test_without_any_sign_of_the_rounds_they_are_not_known(tmp_path: Path) -> None:
    script, site = rounds(tmp_path, ROUNDS)
    assert turns_of_outer(script.ops, (site,), Sources()) == 0


def test_an_outer_loop_whose_turns_do_not_need_each_other_does_not_count(tmp_path: Path) -> None:
    text = ROUNDS.replace("weights = mean(updates)", "found.append(updates)").replace(
        "while weights[0] < 9", "for _ in xs"
    )
    script, site = rounds(tmp_path, text, pause_s=0.01)
    assert turns_of_outer(script.ops, (site,), Sources()) == 0


@pytest.mark.parametrize(
    ("items", "count"),
    [
        ("range(4)", 4),
        ("range(1, N)", 6),
        ("SHARDS", 3),
        ("enumerate(SHARDS)", 3),
        ("TABLE.items()", 2),
        ("[put(x) for x in range(5)]", 5),
        ("[x for x in range(5) if x]", 0),
        ("load()", 0),
        ("twice", 0),
    ],
)
def test_the_number_of_items_that_a_text_tells(items: str, count: int) -> None:
    head = "N = 7\nSHARDS = [1, 2, 3]\nTABLE = {1: 2, 3: 4}\ntwice = [1]\ntwice = [1, 2]\n"
    source = Source("prog.py", f"{head}for x in {items}:\n    pass\n")
    loop = source.tree.body[-1]
    assert isinstance(loop, ast.For)
    assert length_of(source, loop.iter, loop) == count
