"""What `init()` says in a terminal and shows in a notebook."""

from __future__ import annotations

from sundog import init_context
from sundog.init_context import InitContext


def test_resources_are_told_in_the_order_in_which_people_ask() -> None:
    told = init_context.in_words(
        {"object_store_memory": 2**30, "disk": 2.0, "node:x": 1.0, "GPU": 2.0, "CPU": 1.0}
    )

    assert told == "1 CPU, 2 GPUs, 2 disk, 1.0 GiB for objects"


def test_a_small_object_store_is_told_in_a_smaller_unit() -> None:
    assert (
        init_context.in_words({"CPU": 2.0, "object_store_memory": 50 * 2**20}) == "2 CPUs, 50 MiB for objects"
    )


def test_the_line_in_a_terminal_names_the_session_and_the_next_command() -> None:
    assert "session_x" in init_context.started_text("session_x", {"CPU": 2.0})
    assert init_context.joined_text("session_x").endswith("sundog status --session session_x")


def test_a_card_of_a_session_that_was_left_says_so_and_escapes_what_it_shows() -> None:
    card = InitContext(session_name="<name>", session_dir="/tmp/x")._repr_html_()

    assert "&lt;name&gt;" in card and "<name>" not in card
    assert "has left the session" in card


def test_the_facts_are_a_dict_and_under_their_old_name() -> None:
    context = InitContext(session_name="s", webui_url=None)

    assert context.address_info["session_name"] == context["session_name"] == "s"
    assert context.dashboard_url is None


def test_a_console_shows_one_line_of_it() -> None:
    context = InitContext(session_name="name", session_dir="/tmp/x", node_id="n", webui_url=None)
    assert repr(context) == "InitContext(session_name='name', session_dir='/tmp/x', dashboard_url=None)"
    assert dict(context)["node_id"] == "n"
