"""docs/errors.md: every error, made from the scenes that make it happen.

``python -m tests.errors.page`` plays all scenes and writes the page; with names of classes it plays only those.
`test_errors` fails while the page says something else than the scenes.
"""

from __future__ import annotations

import re
import sys

from tests.errors import stage

PAGE = stage.ROOT / "docs" / "errors.md"

# Never raised as such: a program catches them to catch what is below them.
BASES = {
    "RayError": "everything sundog raises about tasks, actors, objects and itself",
    "RayActorError": "whatever keeps an actor from finishing a call: `ActorDiedError`, `ActorUnavailableError`",
    "RayChannelError": "`RayChannelTimeoutError`",
}
# Ray's names which nothing here can raise. They exist so that programs that catch them run.
NAMES_ONLY = {
    "ActorPlacementGroupRemoved": "when its group is removed a living actor dies (`ActorDiedError`), and one that "
    "waited for its place can never have it (`ActorUnschedulableError`), as in Ray",
    "AuthenticationError": "a session is reached through a socket that only its user can open",
    "CrossLanguageError": "tasks are Python",
    "ObjectFetchTimedOutError": "all nodes are on one machine: nothing is fetched over a network",
    "ObjectRefStreamEndOfStreamError": "the end of a generator is a `StopIteration`",
    "PlasmaObjectNotAvailable": "an object that is not here is waited for, rebuilt, or an `ObjectLostError`",
    "RayCgraphCapacityExceeded": "there are no compiled graphs",
    "RayChannelTimeoutError": "there are no compiled graphs",
    "RayDirectTransportError": "there are no transfers between devices",
    "RpcError": "a broken connection is told as what it means: the death of the other side",
    "UnserializableException": "an exception that cannot be unpickled arrives as a stand-in of its nearest known class",
    "UserCodeException": "user code runs in tasks and actors, whose exceptions are `RayTaskError`",
}

_HEAD = """\
# Errors

What sundog raises, when, and what to do. Every message below was raised by the program above it: the page is made by
`python -m tests.errors.page`, and the tests fail when it says something else than the code. Names and inheritance are
Ray's; the facts of an error are attributes, and all of it survives pickling.

`<id>`, `<pid>`, `<n>`, `<session>`, … stand for what differs from run to run.
"""
_REST = """\
## Classes without a page

Never raised as such; catch them to catch what is below them:

{bases}

Ray's names that nothing here raises. Programs that catch them run:

{names}
"""
_WORDS = re.compile(r"When it happens[:.]? (\S.*?) What to do[:.]? (\S.*)")
_TITLE = re.compile(r"^## (\w+)$", re.MULTILINE)


def section(name: str, played: stage.Outcome) -> str:
    """What the page says about the class of a scene."""
    module = stage.load(name)
    raises = module.RAISES.__name__
    when, do = words_of(module.__doc__ or "")
    below = [base for base in played.bases if base not in (raises, played.type, "BaseException", "object")]
    facts = ", ".join(f"`{fact}`" for fact in sorted(played.facts))
    program = stage.program_of((stage.SCENES / f"{name}.py").read_text(encoding="utf-8")).strip("\n")
    lines = [
        f"## {raises}",
        "",
        f"*{' · '.join([raises, *below])}*",
        "",
        f"**When it happens.** {when[:1].upper()}{when[1:]}",
        "",
        f"**What to do.** {do[:1].upper()}{do[1:]}",
        "",
        "```python",
        program,
        "```",
        "",
        "```text",
        f"{played.type}: {played.message.rstrip()}",
        "```",
    ]
    if facts:
        lines += ["", f"Facts: {facts}."]
    return "\n".join(lines) + "\n"


def words_of(docstring: str) -> tuple[str, str]:
    """When it happens, and what to do.

    Raises:
        ValueError: the docstring does not say both.
    """
    found = _WORDS.fullmatch(" ".join(docstring.split()))
    if found is None:
        raise ValueError("a scene's docstring says: When it happens: …, and then: What to do: …")
    return found[1], found[2]


def sections_of(page: str) -> dict[str, str]:
    """The sections of a page, by their titles."""
    starts = [*_TITLE.finditer(page)]
    ends = [match.start() for match in starts[1:]] + [page.find("\n## Classes without") + 1 or len(page)]
    return {match[1]: page[match.start() : end].rstrip("\n") + "\n" for match, end in zip(starts, ends)}


def assemble(sections: dict[str, str]) -> str:
    """The page of these sections, in the order in which their classes are defined."""
    order = [name for name in stage.public_errors() if name in sections]
    index = "\n".join(f"- [{name}](#{name.lower()})" for name in order)
    rest = _REST.format(bases=_listed(BASES), names=_listed(NAMES_ONLY))
    return "\n".join([_HEAD, index, "", *(sections[name] for name in order), rest])


def _listed(classes: dict[str, str]) -> str:
    return "\n".join(f"- `{name}`: {words}" for name, words in classes.items())


def main(wanted: list[str]) -> None:
    """Play the scenes of the classes `wanted` (all if none is named) and write the page."""
    scenes = {stage.load(name).RAISES.__name__: name for name in stage.names()}
    known = sections_of(PAGE.read_text(encoding="utf-8")) if PAGE.exists() else {}
    sections = {name: text for name, text in known.items() if name in scenes}
    for class_name in wanted or scenes:
        scene = scenes[class_name]
        print(f"playing {scene}", file=sys.stderr)
        played = stage.play(scene)
        if class_name not in played.bases:
            sys.exit(f"{scene} raised {played.type}: {played.message}")
        sections[class_name] = section(scene, played)
    PAGE.write_text(assemble(sections), encoding="utf-8")
    print(f"wrote {PAGE.relative_to(stage.ROOT)}", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])
