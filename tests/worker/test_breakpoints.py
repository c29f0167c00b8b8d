"""What a paused task is called."""

import pytest

from sundog.owner import context
from sundog.worker.breakpoints import _full_name


@pytest.mark.parametrize(
    ("made_by", "name", "said"),
    [("", "step", "step"), ("Model", "step", "Model.step"), ("Model", "Model.__init__", "Model.__init__")],
)
def test_a_call_of_an_actor_is_named_with_its_class(
    monkeypatch: pytest.MonkeyPatch, made_by: str, name: str, said: str
) -> None:
    monkeypatch.setattr(context.facts, "actor_class", made_by)
    assert _full_name(name) == said
