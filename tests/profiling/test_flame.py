"""Profiles as a page and as speedscope wants them."""

from __future__ import annotations

import json
import re

from sundog.profiling import flame
from tests.profiling.parts import profile, sampled


def test_the_page_holds_all_bars_and_nothing_from_elsewhere() -> None:
    made = profile("wall", sampled(1))._replace(what="</script><b>")
    page = flame.page(made)
    assert page.count("</script>") == 1 and "src=" not in page and "http" not in page
    (data,) = re.findall(r"const root = (.*);\n", page)
    tree = json.loads(data)
    assert tree["s"] == 4.5 and [bar["n"] for bar in tree["c"]] == ["f", "g"]
    assert tree["c"][0]["c"][0]["c"][0] == {"n": "hot", "p": "/x/f.py:7", "s": 3.0, "c": []}


def test_speedscope_gets_a_profile_for_each_function_whose_weights_add_up() -> None:
    made = flame.speedscope(profile("cpu", sampled(1)))
    assert [each["name"] for each in made["profiles"]] == ["f", "g"]
    for each in made["profiles"]:
        assert len(each["samples"]) == len(each["weights"]) and sum(each["weights"]) == each["endValue"]
        assert max(max(stack) for stack in each["samples"]) < len(made["shared"]["frames"])
