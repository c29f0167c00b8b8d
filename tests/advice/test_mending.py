"""Diffs of the user's own lines: only for shapes that are known, and each is a program that parses."""

import ast
from pathlib import Path

import pytest

from sundog.advice import mending
from sundog.advice.source import Sources

HEAD = "import sundog as ray\n"


def write(folder: Path, text: str) -> str:
    file = folder / "prog.py"
    file.write_text(HEAD + text)
    return str(file)


def applied(text: str, diff: str) -> str:
    """The lines after a diff that has one hunk or several, by its own marks."""
    kept = [line[1:] for line in diff.splitlines() if line[:1] in " +" and not line.startswith("+++")]
    return "\n".join(kept)


@pytest.mark.parametrize(
    ("text", "line", "expected"),
    [
        ("out = [ray.get(f.remote(x)) for x in xs]\n", 2, "out = ray.get([f.remote(x) for x in xs])"),
        ("n = sum(ray.get(f.remote(x)) for x in xs)\n", 2, "n = sum(ray.get([f.remote(x) for x in xs]))"),
        ("for x in xs:\n    out.append(ray.get(f.remote(x)))\n", 3, "out = ray.get(out)"),
        ("for x in xs:\n    r = ray.get(f.remote(x))\n    use(r)\n", 3, "for ref in refs:"),
        ("for x in xs:\n    r = ray.get(f.remote(x))\n    use(r, x)\n", 3, "for x, ref in zip(xs, refs):"),
    ],
)
def test_a_get_in_a_loop_is_rewritten(tmp_path: Path, text: str, line: int, expected: str) -> None:
    file = write(tmp_path, text)
    diff = mending.get_in_loop_diff(Sources(), f"{file}:{line} in <module>")
    after = applied(text, diff)
    assert expected in after
    ast.parse(after)


@pytest.mark.parametrize(
    "text",
    [
        "while more():\n    r = ray.get(f.remote(x))\n",
        "for x in xs:\n    out.append(ray.get(f.remote(x), timeout=3))\n",
    ],
)
def test_a_shape_that_is_not_known_gives_no_diff(tmp_path: Path, text: str) -> None:
    file = write(tmp_path, text)
    assert mending.get_in_loop_diff(Sources(), f"{file}:3 in <module>") == ""


def test_results_in_order_become_results_as_they_come(tmp_path: Path) -> None:
    file = write(tmp_path, "for ref in refs:\n    use(ray.get(ref))\n")
    diff = mending.get_in_order_diff(Sources(), f"{file}:3 in <module>")
    assert "[ref], left = ray.wait(left, num_returns=1)" in diff
    ast.parse(applied("", diff))


def test_a_value_is_put_before_the_loop(tmp_path: Path) -> None:
    file = write(tmp_path, "refs = [f.remote(big, x) for x in xs]\n")
    diff = mending.put_once_diff(Sources(), f"{file}:2 in <module>")
    assert "+big_ref = ray.put(big)" in diff
    assert "+refs = [f.remote(big_ref, x) for x in xs]" in diff


def test_a_site_without_a_source_gives_words_alone() -> None:
    assert mending.get_in_loop_diff(Sources(), "/nowhere.py:3 in f") == ""
    assert "get once" in mending.get_in_loop_words(Sources(), "/nowhere.py:3 in f")
