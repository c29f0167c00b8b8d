"""Which frames the traceback of an error keeps."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

import pytest

import sundog
from sundog.engines import tracebacks
from sundog.exceptions import RaySystemError
from sundog.runtime_env import merge
from sundog.signatures import Signature


def frames(error: BaseException) -> list[str]:
    return [each.name for each in traceback.extract_tb(error.__traceback__)]


def test_a_refusal_of_ours_keeps_the_users_frames_only() -> None:
    with pytest.raises(TypeError) as caught:
        Signature.of(lambda a: a).check("f", (), {})
    assert len(frames(caught.value)) > 1
    tracebacks.fold(caught.value)
    assert frames(caught.value) == ["test_a_refusal_of_ours_keeps_the_users_frames_only"]


def test_a_defect_of_ours_keeps_all_frames() -> None:
    with pytest.raises(TypeError) as caught:
        merge(5, None)  # type: ignore[arg-type]
    before = frames(caught.value)
    tracebacks.fold(caught.value)
    assert frames(caught.value) == before and len(before) > 1


def test_an_error_without_a_frame_of_the_users_keeps_what_it_has() -> None:
    error = RaySystemError("x")
    tracebacks.fold(error)
    assert error.__traceback__ is None


def test_every_error_of_a_chain_is_folded_once_and_the_chain_is_kept() -> None:
    with pytest.raises(ValueError, match="mine") as caught:
        try:
            sundog.get(7)  # type: ignore[call-overload]
        except Exception as first:
            raise ValueError("mine") from first
    cause = caught.value.__cause__
    assert cause is not None
    cause.__cause__ = caught.value  # a circle must not hang it
    tracebacks.fold(caught.value)
    mine = "test_every_error_of_a_chain_is_folded_once_and_the_chain_is_kept"
    assert frames(cause) == [mine] and frames(caught.value) == [mine]
    cause.__cause__ = None


def test_the_error_is_shown_whatever_is_wrong_with_folding(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracebacks, "fold", None)
    tracebacks.show(KeyError, KeyError("shown"), None)
    assert "KeyError: 'shown'" in capsys.readouterr().err


class FakeShell:
    """IPython's shell, as far as errors in a cell go."""

    def __init__(self) -> None:
        self.custom_exceptions: tuple[type[BaseException], ...] = ()
        self.handler: Any = None
        self.shown: list[tuple[Any, int | None, bool]] = []

    def set_custom_exc(self, kinds: tuple[type[BaseException], ...], handler: Any) -> None:
        self.custom_exceptions, self.handler = kinds, handler

    def showtraceback(self, exc_tuple: Any, *, tb_offset: int | None, running_compiled_code: bool) -> None:
        self.shown.append((exc_tuple, tb_offset, running_compiled_code))

    def run(self, cell: Callable[[], object]) -> None:
        try:
            cell()
        except self.custom_exceptions as error:
            self.handler(self, type(error), error, error.__traceback__, tb_offset=1)


def test_ipython_shows_errors_folded_and_with_the_hint_at_a_copy() -> None:
    shell = FakeShell()
    tracebacks.show_in(shell)

    def write() -> None:
        raise ValueError("assignment destination is read-only")

    shell.run(lambda: sundog.get(7))  # type: ignore[call-overload]
    shell.run(write)
    (refused, offset, running), (hinted, _, _) = shell.shown
    assert [each.name for each in traceback.extract_tb(refused[2])] == ["run", "<lambda>"]
    assert (offset, running) == (1, True)
    assert "array.copy()" in hinted[1].__notes__[0]


def test_a_handler_that_somebody_gave_ipython_is_left_alone() -> None:
    shell = FakeShell()
    shell.set_custom_exc((ValueError,), mine := object())
    tracebacks.show_in(shell)
    assert shell.handler is mine


def test_frames_of_the_standard_library_between_ours_are_folded_and_those_of_the_user_kept() -> None:
    def user() -> None:
        sundog.get(7)  # type: ignore[call-overload]

    inner = compile_at(tracebacks._OURS + "x.py", "def inner(call):\n    call()\n")
    outer = compile_at(tracebacks._OURS + "y.py", "def outer(copy, call):\n    copy.copy(call)\n")

    class Copied:
        def __copy__(self) -> None:
            inner(user)

    import copy

    with pytest.raises(ValueError) as caught:
        outer(copy, Copied())
    names = frames(caught.value)
    assert "copy" in names
    tracebacks.fold(caught.value)
    mine = "test_frames_of_the_standard_library_between_ours_are_folded_and_those_of_the_user_kept"
    assert frames(caught.value) == [mine, "__copy__", "user"]


def compile_at(path: str, source: str) -> Any:
    """The function of a source, as if it stood in the file `path`."""
    found: dict[str, Any] = {}
    exec(compile(source, path, "exec"), found)
    return next(each for name, each in found.items() if not name.startswith("__"))
