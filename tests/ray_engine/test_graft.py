"""Ray's errors under sundog's names too."""

from __future__ import annotations

from types import ModuleType

from sundog import exceptions
from sundog.ray_engine import graft


class RayError(Exception):
    def __str__(self) -> str:
        return "theirs"


class RayActorError(RayError):
    def __init__(self, text: str = "") -> None:
        self.error_msg = text


class GetTimeoutError(RayError, TimeoutError):
    pass


def test_an_error_of_rays_is_caught_by_both_names_and_keeps_its_text() -> None:
    theirs = ModuleType("ray.exceptions")
    vars(theirs).update(RayError=RayError, RayActorError=RayActorError, GetTimeoutError=GetTimeoutError)
    graft._errors(theirs)
    for cls in (RayError, RayActorError, GetTimeoutError):
        try:
            raise cls("x")
        except getattr(exceptions, cls.__name__) as error:
            assert isinstance(error, cls) and str(error) == "theirs"
    assert RayActorError("gone").error_msg == "gone"
    assert graft.left == []
