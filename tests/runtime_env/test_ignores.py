"""Patterns: what cannot be read, what would take for ever, nested files, and the same meaning as before."""

from __future__ import annotations

import re
from pathlib import Path

import pathspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sundog.runtime_env import RuntimeEnv, ignores, normalize


def left_out(path: str, *patterns: str) -> bool:
    is_dir = path.endswith("/")
    return ignores.is_left_out(path.rstrip("/"), is_dir, [(0, ignores.check_excludes(patterns))])


@pytest.mark.parametrize("pattern", ["a[z-a]b", "foo\\", "!"])
def test_an_exclude_that_is_no_pattern_is_refused_in_one_sentence(pattern: str) -> None:
    told = r"runtime_env\['excludes'\] has the pattern .*, which is not a pattern"
    with pytest.raises(ValueError, match=told) as caught:
        RuntimeEnv(excludes=["*.py", pattern])
    assert repr(pattern) in str(caught.value) and "\n" not in str(caught.value)


def test_a_line_of_a_gitignore_that_is_no_pattern_is_left_out_with_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tree, session = tmp_path / "w", tmp_path / "session_1"
    tree.mkdir()
    session.mkdir()
    (tree / ".gitignore").write_text("*.log\na[z-a]b\n*.tmp\n")
    for name in ("a.log", "b.tmp", "ab"):
        (tree / name).write_text("")
    for _ in range(2):
        env = normalize({"working_dir": str(tree)}, session_dir=str(session))
    assert sorted(path.name for path in Path(env.working_dir).iterdir()) == [".gitignore", "ab"]
    told = capsys.readouterr().err
    assert told.count("\n") == 1 and f"{tree}/.gitignore, line 2: the pattern 'a[z-a]b' is left out" in told


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("*a" * 40 + "*b", "a" * 250),
        ("**/a/" * 20 + "b", "a/" * 100 + "c"),
        ("a/**/" * 20 + "b", "a/" * 100 + "c"),
        ("*" * 200 + "b", "a" * 250),
        ("?*" * 60 + "b", "a" * 250),
        ("[ab]*" * 60 + "c", "ab" * 100),
    ],
)
def test_no_pattern_takes_for_ever(pattern: str, path: str) -> None:
    assert not left_out(path, pattern)


TOKENS = st.sampled_from(
    ["*", "a", "b", "?", "/", "**", "**/", "/**/", "[ab]", "[!a]", "[!]a]", ".", "\\*", "[a-c]"]
)
PATHS = st.text(alphabet="aab./]*", min_size=1, max_size=12).filter(
    lambda path: "//" not in path and path[0] != "/"
)


@given(
    pattern=st.lists(TOKENS, min_size=1, max_size=8).map("".join),
    paths=st.lists(PATHS, min_size=1, max_size=20),
)
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_quick_pattern_matches_what_the_slow_one_did(pattern: str, paths: list[str]) -> None:
    try:
        made = list(pathspec.GitIgnoreSpec.from_lines([pattern]).patterns)
    except ValueError:
        return
    if not made or made[0].regex is None:
        return
    # As git says, and pathspec does not: a set never matches a slash.
    slow = re.compile(made[0].regex.pattern.replace("[^a]", "[^/a]").replace("[^]a]", "[^/\\]a]"))
    quick = re.compile(ignores.quick(made[0].regex.pattern))
    for path in paths:
        assert bool(quick.match(path)) == bool(slow.match(path)), (pattern, path, slow.pattern, quick.pattern)


def test_the_last_rule_that_matches_decides() -> None:
    assert left_out("a.log", "*.log") and not left_out("a.log", "*.log", "!a.log")
    assert left_out("a.log", "!a.log", "*.log")
    assert left_out("venv/") and not left_out("venv/", "!venv/") and not left_out("venv")


def test_ignore_files_are_read_in_every_folder_and_excludes_come_last(tmp_path: Path) -> None:
    tree, session = tmp_path / "w", tmp_path / "session_1"
    (tree / "sub" / "deep").mkdir(parents=True)
    session.mkdir()
    (tree / ".gitignore").write_text("*.txt\n")
    (tree / "sub" / ".gitignore").write_text("!keep.txt\n/here\n")
    (tree / "sub" / ".rayignore").write_text("*.csv\n")
    for name in (
        "keep.txt",
        "sub/keep.txt",
        "sub/deep/keep.txt",
        "sub/here",
        "sub/deep/here",
        "sub/a.csv",
        "a.csv",
    ):
        (tree / name).write_text("")
    env = normalize({"working_dir": str(tree), "excludes": ["/sub/keep.txt"]}, session_dir=str(session))
    names = {str(p.relative_to(env.working_dir)) for p in Path(env.working_dir).rglob("*") if p.is_file()}
    assert names == {
        ".gitignore", "a.csv", "sub/.gitignore", "sub/.rayignore", "sub/deep/here", "sub/deep/keep.txt"
    }  # fmt: skip


def test_pathspec_is_imported_only_for_patterns(tmp_path: Path) -> None:
    import subprocess
    import sys

    (tmp_path / "w").mkdir()
    code = (
        "import sys, sundog\nfrom sundog.runtime_env import normalize\n"
        f"normalize({{'working_dir': {str(tmp_path / 'w')!r}}}, session_dir={str(tmp_path)!r})\n"
        "assert 'pathspec' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
