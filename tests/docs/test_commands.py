"""Options of commands, as the pages and our own messages write them: each of them exists."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from sundog import cli
from tests.docs.settings import PACKAGE, ROOT

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
# A command up to the end of the code, the text or the line that it stands in.
_COMMAND = re.compile(r"sundog ([a-z][a-z-]+(?: [^`\n\"'#|)(]*)?)")


def misspelt(text: str) -> Iterator[str]:
    """The commands in a text with an option that they do not have."""
    group = cli.main
    for found in _COMMAND.finditer(text):
        name, *words = found.group(1).split()
        command = group.get_command(click.Context(group), name) if name in cli.COMMANDS else None
        while isinstance(command, click.Group) and words and words[0] in command.commands:
            command = command.commands[words.pop(0)]
        if command is None:
            continue
        known = {each for option in command.params for each in (*option.opts, *option.secondary_opts)}
        for word in words:
            option = word.strip("[].,;:").partition("=")[0].partition("|")[0]
            if option == "--" or (name == "run" and not option.startswith("-")):
                break  # what follows belongs to the program
            if re.fullmatch(r"-[a-z]|--[a-z-]+", option) and option not in known | {"--help", "-h"}:
                yield f"sundog {found.group(1)}: {option}"


def test_an_option_that_a_command_does_not_have_is_found() -> None:
    assert list(misspelt("`sundog job submit --nope -- python x.py --its`")) == [
        "sundog job submit --nope -- python x.py --its: --nope"
    ]
    assert (
        list(misspelt("`sundog run --doctor x.py --its`, `sundog status -v`, sundog is --not a command"))
        == []
    )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_options_on_a_page_exist(page: Path) -> None:
    assert list(misspelt(page.read_text(encoding="utf-8"))) == []


def test_the_options_that_our_own_messages_name_exist() -> None:
    texts = (path.read_text(encoding="utf-8") for path in sorted(PACKAGE.rglob("*.py")))
    assert [each for text in texts for each in misspelt(text) if "python -m" not in each] == []
