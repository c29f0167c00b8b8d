"""What the site's build makes of links that lead out of the documentation."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from tests.docs.settings import ROOT

_SPEC = importlib.util.spec_from_file_location("site_hooks", ROOT / "docs" / "site_hooks.py")
assert _SPEC is not None and _SPEC.loader is not None
site_hooks = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(site_hooks)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("see [examples](../examples/README.md).", "see examples."),
        ("see [all](../CONTRIBUTING.md#code)", "see all"),
        ("see [memory](memory.md#caps)", "see [memory](memory.md#caps)"),
        ("see [there](https://example.org)", "see [there](https://example.org)"),
        ("![picture](images/x.svg)", "![picture](images/x.svg)"),
    ],
)
def test_a_link_out_of_the_documentation_becomes_its_words(text: str, expected: str) -> None:
    assert site_hooks.drop_outside_links(text, Path(ROOT / "docs")) == expected


def test_a_page_of_a_sub_folder_may_link_to_the_folder_above() -> None:
    text = "[up](../memory.md) [out](../../README.md)"
    assert site_hooks.drop_outside_links(text, ROOT / "docs" / "howto") == "[up](../memory.md) out"
