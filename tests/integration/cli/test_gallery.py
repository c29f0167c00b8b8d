"""The gallery: a scene of it is played, and its page has every scene and command."""

from __future__ import annotations

import tempfile

from tests.docs import gallery


def test_a_scene_is_explained_as_the_page_says() -> None:
    [scene] = [each for each in gallery.SCENES if each.title == "An argument that failed"]
    with tempfile.TemporaryDirectory(prefix="sd-", dir="/tmp") as folder:
        (_, why), (_, listed), _ = gallery.play(scene, folder)
    assert "its argument failed: the result of load()" in why and "No such file" in why
    assert len(listed.splitlines()) == 3


def test_the_page_has_every_scene_and_command() -> None:
    page = gallery.PAGE.read_text(encoding="utf-8")
    for scene in gallery.SCENES:
        assert f"## {scene.title}" in page and scene.program.strip() in page
        for command in scene.commands:
            assert f"$ sundog {gallery._typed(command)}" in page
