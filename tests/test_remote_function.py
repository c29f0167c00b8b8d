"""Remote functions without a session: what they refuse, and what their options give."""

from __future__ import annotations

import pytest

import sundog


@sundog.remote
def double(number: int) -> int:
    return 2 * number


def test_a_remote_function_cannot_be_called_directly_and_says_how_to() -> None:
    with pytest.raises(TypeError, match=r"double\.remote\(\.\.\.\)"):
        double(2)
    assert double._function(2) == 4


def test_options_make_another_function_and_leave_the_first_alone() -> None:
    fast = double.options(num_cpus=4, max_retries=0)

    assert (fast._options.num_cpus, fast._options.max_retries) == (4, 0)
    assert double._options.num_cpus is None


def test_an_async_function_is_refused_with_what_to_write_instead() -> None:
    async def later() -> int:
        return 1

    with pytest.raises(ValueError, match=r"asyncio\.run\(.*later"):
        sundog.remote(later)


def test_a_bound_call_is_a_node_of_a_graph_that_has_not_run() -> None:
    from sundog.dag import FunctionNode

    assert isinstance(double.bind(1), FunctionNode)


def test_several_returns_of_a_plain_function_and_streams_of_one_that_yields_nothing() -> None:
    assert double.options(num_returns=2)._options.num_returns == 2
    with pytest.raises(ValueError, match="streaming"):
        double.options(num_returns="streaming")
