"""The pictures of the timeline page: there is one of each, of the size that is taken, and the gallery shows it."""

from __future__ import annotations

from tests.docs import gallery, pictures


def test_there_is_a_picture_of_each_program_and_the_gallery_shows_it() -> None:
    page = gallery.PAGE.read_text(encoding="utf-8")
    for picture in pictures.PICTURES:
        assert pictures.size_of(picture.path) == pictures.SIZE
        assert f"images/{picture.name}" in page


def test_make_takes_them() -> None:
    assert "-m tests.docs.pictures" in (pictures.ROOT / "Makefile").read_text(encoding="utf-8")
