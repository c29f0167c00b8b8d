"""What a worker sets up for a lease."""

from __future__ import annotations

import json

from sundog.worker import setup


def test_what_a_lease_holds_is_the_same_json_with_and_without_the_library() -> None:
    held = {"CPU": 1.0, "GPU": 0.5}
    assert json.loads(setup.lease_text(held, "ab", {})) == {"resources": held, "pg": "ab", "env": {}}
    odd = {'a "quoted" name': 2.0}
    found = json.loads(setup.lease_text(odd, "", {"env_vars": {"A": "1"}}))
    assert found == {"resources": odd, "pg": "", "env": {"env_vars": {"A": "1"}}}
