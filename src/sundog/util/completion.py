"""Results in the order they arrive: `as_completed` and `map_unordered`.

Generators over `wait` and `get`; own nothing between two `next()`. Run in the caller's thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar, overload

import sundog

if TYPE_CHECKING:
    from typing import Literal, TypedDict, Unpack

    from sundog.refs import ObjectRef
    from sundog.remote_function import RemoteFunction

    class WaitKeywords(TypedDict, total=False):
        """Options of `wait` that are handed on."""

        timeout: float | None
        fetch_local: bool


__tracebackhide__ = True  # pytest folds the frames of this file

# A few results per wait: one costs a round per result, many delay the first.
DEFAULT_CHUNK_SIZE = 10
DEFAULT_BACKPRESSURE_SIZE = 100

T = TypeVar("T")
V = TypeVar("V")


def _check(chunk_size: int, wait_options: WaitKeywords) -> None:
    if chunk_size < 1:
        raise ValueError(f"`chunk_size` must be >= 1, got {chunk_size}")
    if "num_returns" in wait_options:
        raise ValueError("`num_returns` is set by `chunk_size`: use that argument instead.")


def _next_chunk(
    refs: Sequence[ObjectRef[T]], chunk_size: int, yield_obj_refs: bool, wait_options: WaitKeywords
) -> tuple[list[T] | list[ObjectRef[T]], list[ObjectRef[T]]]:
    ready, rest = sundog.wait(list(refs), num_returns=min(chunk_size, len(refs)), **wait_options)
    return (list(ready) if yield_obj_refs else list(sundog.get(ready))), list(rest)


@overload
def as_completed(
    refs: Sequence[ObjectRef[T]],
    *,
    chunk_size: int = DEFAULT_CHUNK_SIZE,
    yield_obj_refs: Literal[False] = False,
    **kwargs: Unpack[WaitKeywords],
) -> Iterator[T]: ...
@overload
def as_completed(
    refs: Sequence[ObjectRef[T]],
    *,
    chunk_size: int = DEFAULT_CHUNK_SIZE,
    yield_obj_refs: bool,
    **kwargs: Unpack[WaitKeywords],
) -> Iterator[T] | Iterator[ObjectRef[T]]: ...
def as_completed(
    refs: Sequence[ObjectRef[T]],
    *,
    chunk_size: int = DEFAULT_CHUNK_SIZE,
    yield_obj_refs: bool = False,
    **kwargs: Unpack[WaitKeywords],
) -> Iterator[T] | Iterator[ObjectRef[T]]:
    """Yield results as they become available, `chunk_size` at a time.

    Args:
        refs: What to wait for.
        chunk_size: How many must be ready before they are yielded; 1 yields each at once.
        yield_obj_refs: Yield the refs instead of their values.
        **kwargs: For `wait`, e.g. `timeout` or `fetch_local`.

    Raises:
        ValueError: `chunk_size` is below 1, or `num_returns` was given.
    """
    _check(chunk_size, kwargs)
    rest = refs
    while rest:
        results, rest = _next_chunk(rest, chunk_size, yield_obj_refs, kwargs)
        yield from results


def map_unordered(
    fn: RemoteFunction[[V], ObjectRef[T]],
    items: Iterable[V],
    *,
    backpressure_size: int | None = DEFAULT_BACKPRESSURE_SIZE,
    chunk_size: int = DEFAULT_CHUNK_SIZE,
    yield_obj_refs: bool = False,
    **kwargs: Unpack[WaitKeywords],
) -> Iterator[T] | Iterator[ObjectRef[T]]:
    """Call a remote function on every item and yield results as they become available.

    Args:
        fn: A remote function of one argument.
        items: Its arguments; read only as fast as results are taken.
        backpressure_size: How many calls may be outstanding; None sets no limit.
        chunk_size: How many results are awaited at a time.
        yield_obj_refs: Yield the refs instead of their values.
        **kwargs: For `wait`, e.g. `timeout` or `fetch_local`.

    Raises:
        ValueError: A size is not positive, or `num_returns` was given.
    """
    if backpressure_size is not None and backpressure_size <= 0:
        raise ValueError(f"backpressure_size must be positive, got {backpressure_size}")
    _check(chunk_size, kwargs)
    outstanding: list[ObjectRef[T]] = []
    for item in items:
        outstanding.append(fn.remote(item))
        if backpressure_size is not None and len(outstanding) >= backpressure_size:
            results, outstanding = _next_chunk(outstanding, chunk_size, yield_obj_refs, kwargs)
            yield from results
    yield from as_completed(outstanding, chunk_size=chunk_size, yield_obj_refs=yield_obj_refs, **kwargs)
