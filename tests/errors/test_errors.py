"""Every error of the package is made to happen, and docs/errors.md says what it said."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.errors import page, stage


def constructed(source: str, names: set[str]) -> set[str]:
    """Which of the classes `names` a module makes instances of, or raises."""
    found: set[str] = set()
    if not any(name in source for name in names):
        return found
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(func=ast.Name(id=name)) | ast.Call(func=ast.Attribute(attr=name)):
                found.add(name)
            case ast.Raise(exc=ast.Name(id=name)) | ast.Raise(exc=ast.Attribute(attr=name)):
                found.add(name)
    return found & names


# ---------------------------------------------------------------------- the stage itself
def test_a_scene_becomes_the_program_that_a_user_would_write() -> None:
    source = '''"""When it happens: never. What to do: nothing."""

from __future__ import annotations

from sundog.exceptions import RayError

RAISES = RayError
LIMIT = 3


def happen() -> None:
    """Not part of it."""
    @decorated
    def task() -> None:
        raise ValueError(LIMIT)

    task()
'''
    expected = "LIMIT = 3\n@decorated\ndef task() -> None:\n    raise ValueError(LIMIT)\n\ntask()\n"
    assert stage.program_of(source) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Worker 00112233445566aa (pid 812) died", "Worker <id> (pid <pid>) died"),
        ("pid=5, exit code 41, attempt 2", "pid=<pid>, exit code 41, attempt 2"),
        ("used 15.2 GB of 16,000 MB (95.1 %) for 3.25 s", "used <n> GB of <n> MB (<n> %) for <n> s"),
        ("in /tmp/x/session_2026-01-02_03-04-05_1_9/logs/a.err", "in <session>/logs/a.err"),
        ("/dev/shm/sundog-12-abc/00aa", "<shm>/00aa"),
        ("    f(x)\n    ~^^^\nE: 1\n", "    f(x)\nE: 1\n"),
        ("facade defaced a cafe", "facade defaced a cafe"),
    ],
)
def test_what_differs_from_run_to_run_is_made_alike(text: str, expected: str) -> None:
    assert stage.alike(text) == expected


def test_a_scene_that_does_not_say_what_to_do_is_refused() -> None:
    assert page.words_of("When it happens: now\nand then. \n\nWhat to do: wait.") == (
        "now and then.",
        "wait.",
    )
    with pytest.raises(ValueError, match="What to do"):
        page.words_of("When it happens: now and then.")


def test_a_class_that_is_made_or_raised_is_found() -> None:
    source = (
        "raise RpcError\nraise exceptions.NodeDiedError\nx = CrossLanguageError('no')\nexcept_ = RayError\n"
    )
    names = {"RpcError", "NodeDiedError", "CrossLanguageError", "RayError"}
    assert constructed(source, names) == names - {"RayError"}


# ---------------------------------------------------------------------- completeness
def test_every_class_has_a_scene_or_says_why_it_has_none() -> None:
    with_scene = {stage.load(name).RAISES.__name__ for name in stage.names()}
    excused = {**page.BASES, **page.NAMES_ONLY}
    assert sorted(set(stage.public_errors()) - with_scene - set(excused)) == []
    assert sorted(with_scene & set(excused)) == []
    assert sorted(set(excused) - set(stage.public_errors())) == []


def test_every_scene_is_named_after_its_class_and_says_when_and_what_to_do() -> None:
    for name in stage.names():
        module = stage.load(name)
        assert name == stage.snake(module.RAISES.__name__)
        assert all(page.words_of(module.__doc__ or "")), name


def test_nothing_raises_a_class_that_is_said_to_be_a_name_only() -> None:
    names = set(page.NAMES_ONLY) | set(page.BASES)
    package = stage.ROOT / "src" / "sundog"
    raised = {
        f"{path.relative_to(package)}: {name}"
        for path in package.rglob("*.py")
        if path.name not in ("exceptions.py", "exception_base.py", "exception_transport.py")
        for name in constructed(path.read_text(encoding="utf-8"), names)
    }
    assert raised == set()


def test_the_page_is_made_of_its_sections_and_nothing_else() -> None:
    said = page.PAGE.read_text(encoding="utf-8")
    assert said == page.assemble(page.sections_of(said)), "run: python -m tests.errors.page"


# ---------------------------------------------------------------------- the scenes
@pytest.mark.parametrize("name", stage.names())
def test_an_error_happens_and_says_what_the_page_says(name: str, leak_check: Path) -> None:
    played = stage.play(name, {"SUNDOG_temp_dir": str(leak_check)})
    raises = stage.load(name).RAISES.__name__
    # What a task raised is an instance of its own class as well, and named after both.
    assert raises in (played.type, *played.bases)
    assert played.pickles, "another process would be told something else"
    said = page.sections_of(page.PAGE.read_text(encoding="utf-8")).get(raises, "")
    assert page.section(name, played) == said, f"run: python -m tests.errors.page {raises}"
