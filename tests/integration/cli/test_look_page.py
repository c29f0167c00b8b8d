"""docs/howto/look.md: a scene of it is played, and the page has every scene with its program and commands."""

from __future__ import annotations

from tests.docs import look


def test_a_scene_prints_what_the_page_says() -> None:
    printed = look.play(look.SCENES["logs"])
    page = look.PAGE.read_text(encoding="utf-8")
    for line in ('{"level": "info", "try": 2}', "hello 2"):
        assert line in printed and line in page
    assert printed.count("==> attempt") == 2


def test_the_page_has_every_scene_with_its_program_and_commands() -> None:
    page = look.PAGE.read_text(encoding="utf-8")
    for name, scene in look.SCENES.items():
        part = page.partition(f"<!-- scene {name} -->\n")[2].partition("<!-- end -->")[0]
        assert scene.program.rstrip() in part or not scene.shown
        for command in scene.commands:
            words = [word for word in command if not word.startswith("{")]
            assert f"$ sundog {' '.join(words[:2])}" in part or command == ("top",)
