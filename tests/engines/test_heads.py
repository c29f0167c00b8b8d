"""Where a head process will listen, its token, and the file that tells both."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

import pytest

from sundog.engines import heads
from sundog.engines.heads import Head, HeadInfo


def test_a_port_that_is_asked_for_is_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    info, listener = heads.make_head(None, 0)
    with listener:
        assert listener.getsockname() == ("127.0.0.1", info.port)
        assert info.url == f"http://127.0.0.1:{info.port}"
        assert info.page.startswith(f"{info.url}/?token=") and len(info.token) >= 32
        with pytest.raises(heads.PortTaken, match=f"127.0.0.1:{info.port}"):
            heads.make_head(None, info.port)


def test_by_default_the_next_free_port_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as first:
        monkeypatch.setenv("SUNDOG_dashboard_port", str(first.getsockname()[1]))
        monkeypatch.setattr(heads, "_PORTS_TRIED", 1)
        _, listener = heads.make_head("localhost", None)
        with listener:
            assert listener.getsockname()[1] != first.getsockname()[1]


def test_the_setting_of_the_port_holds_where_no_port_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as found:
        free = found.getsockname()[1]
    monkeypatch.setenv("SUNDOG_dashboard_port", str(free))
    info, listener = heads.make_head(None, None)
    with listener:
        assert info.port == free


def test_each_head_has_another_token() -> None:
    assert heads.make_token() != heads.make_token()


def test_a_token_can_be_given_and_must_be_hard_to_guess(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_AUTH_TOKEN", "sixteen-or-more-characters")
    assert heads.make_token() == "sixteen-or-more-characters"
    for wrong in ("short", "with a line feed\n and more", "not ascii: äääääääääää"):
        monkeypatch.setenv("RAY_AUTH_TOKEN", wrong)
        with pytest.raises(ValueError, match="RAY_AUTH_TOKEN") as caught:
            heads.make_token()
        assert wrong not in str(caught.value)


def test_only_this_user_can_read_the_token(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    info = HeadInfo("127.0.0.1", 8265, "t" * 32)
    umask = os.umask(0)
    try:
        heads.write_head(str(tmp_path), info)
    finally:
        os.umask(umask)
    assert stat.S_IMODE((tmp_path / heads.FILE).stat().st_mode) == 0o600
    assert heads.read_head(str(tmp_path)) == info
    heads.remove_head(str(tmp_path))
    assert heads.read_head(str(tmp_path)) is None


@pytest.mark.parametrize("text", ["", "[]", '{"host": 1}', '{"host": "a", "port": "x", "token": ""}'])
def test_a_file_that_is_damaged_names_no_head(tmp_path: Path, text: str) -> None:
    tmp_path.chmod(0o700)
    (tmp_path / heads.FILE).write_text(text)
    (tmp_path / heads.FILE).chmod(0o600)
    assert heads.read_head(str(tmp_path)) is None


def test_a_file_that_others_can_write_names_no_head(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    heads.write_head(str(tmp_path), HeadInfo("127.0.0.1", 1, "t" * 32))
    (tmp_path / heads.FILE).chmod(0o666)
    assert heads.read_head(str(tmp_path)) is None


def test_a_missing_package_is_named_with_what_to_type(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heads, "find_spec", lambda name: None if name == "uvicorn" else object())
    with pytest.raises(
        heads.NotInstalled, match=r"not installed: uvicorn\. Install: pip install 'sundog\[default\]'"
    ):
        heads.make_head(None, 0)


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("0.0.0.0", "http://127.0.0.1:1"),
        ("::", "http://127.0.0.1:1"),
        ("::1", "http://[::1]:1"),
        ("10.0.0.1", "http://10.0.0.1:1"),
    ],
)
def test_the_address_can_be_opened_whatever_it_listens_on(host: str, url: str) -> None:
    assert HeadInfo(host, 1, "t").url == url


def test_loopback_is_known_by_name_and_number() -> None:
    assert [heads.is_loopback(host) for host in ("localhost", "127.0.0.9", "::1", "0.0.0.0", "box")] == [
        True,
        True,
        True,
        False,
        False,
    ]


def test_a_head_is_its_address_and_its_socket() -> None:
    head = heads.make_head("127.0.0.1", 0)
    with head.listener:
        assert isinstance(head, Head)
