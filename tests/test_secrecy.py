"""Which variables look like secrets."""

import pytest

from sundog import secrecy


@pytest.mark.parametrize(
    "name, value, secret",
    [
        ("HOME", "/root", False),
        ("AWS_SECRET_ACCESS_KEY", "x", True),
        ("github_token", "x", True),
        ("PGPASSWORD", "x", True),
        ("DATABASE", "postgres://me:pw@host/db", True),
        ("PROXY", "http://host:8080", False),
    ],
)
def test_names_and_passwords_in_urls_give_secrets_away(name: str, value: str, secret: bool) -> None:
    assert secrecy.looks_secret(name, value) is secret
    assert (name in secrecy.without_secrets({name: value})) is not secret


def test_a_recorded_environment_names_its_secrets_and_leaves_their_values_out() -> None:
    env = {"env_vars": {"MODE": "a", "API_KEY": "x", "N": 3}, "working_dir": "."}
    assert secrecy.for_records(env) == {
        "env_vars": {"MODE": "a", "API_KEY": secrecy.HIDDEN, "N": 3},
        "working_dir": ".",
    }
    assert env["env_vars"]["API_KEY"] == "x"  # type: ignore[index]
    assert secrecy.for_records({"pip": ["six"]}) == {"pip": ["six"]}
