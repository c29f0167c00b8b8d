"""Which value a setting takes, and what is refused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sundog import config


def test_every_default_is_what_describe_says() -> None:
    loaded = config.load(None, {})
    for setting in config.describe():
        assert getattr(loaded, setting.name) == setting.default


def test_sessions_are_by_default_in_a_folder_that_no_two_users_share(tmp_path: Path) -> None:
    name = f"sundog-{os.geteuid()}"
    assert config.default_temp_dir({}) == f"/tmp/{name}"
    assert config.default_temp_dir({"TMPDIR": str(tmp_path)}) == f"{tmp_path}/{name}"
    assert config.default_temp_dir({"TMPDIR": str(tmp_path / "nothing")}) == f"/tmp/{name}"
    assert config.default_temp_dir({"TMPDIR": "/", "RAY_TMPDIR": str(tmp_path)}) == f"{tmp_path}/{name}"
    assert config.default_temp_dir({"TMPDIR": "/", "RAY_TMPDIR": "/tmp/new"}) == f"/tmp/new/{name}"


def test_a_system_without_dev_null_has_a_folder_for_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(path: str) -> os.stat_result:
        raise FileNotFoundError(2, "No such file or directory", path)

    monkeypatch.setattr(os, "stat", absent)
    assert config.default_temp_dir({}) == f"/tmp/sundog-{os.geteuid()}"


def test_the_temporary_folder_of_another_user_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if os.geteuid() == 0:
        os.chown(tmp_path, 54321, 54321)  # as in `sudo -E`
    else:
        uid = os.geteuid()
        monkeypatch.setattr(os, "geteuid", lambda: uid + 1)
    assert config.default_temp_dir({"TMPDIR": str(tmp_path)}) == f"/tmp/sundog-{os.geteuid()}"


def test_every_default_is_accepted_as_a_value() -> None:
    given = {setting.name: setting.default for setting in config.describe()}
    assert config.load(given, {}) == config.Config()


def test_every_setting_is_documented_and_has_a_type_that_can_be_parsed() -> None:
    for setting in config.describe():
        assert setting.doc.endswith(".")
        assert setting.type in {"int", "float", "bool", "str"}


def test_our_prefix_wins_over_rays_and_system_config_over_both() -> None:
    environ = {"RAY_spin_us": "1"}
    assert config.load(None, environ).spin_us == 1
    environ["SUNDOG_spin_us"] = "2"
    assert config.load(None, environ).spin_us == 2
    assert config.load({"spin_us": 3}, environ).spin_us == 3


def test_variables_may_be_written_in_capitals_and_the_exact_spelling_wins() -> None:
    assert config.load(None, {"RAY_ADDRESS": "auto"}).address == "auto"
    assert config.load(None, {"RAY_ADDRESS": "a", "RAY_address": "b"}).address == "b"
    assert config.load(None, {"RAY_address": "b", "SUNDOG_ADDRESS": "c"}).address == "c"


def test_an_empty_variable_counts_as_absent() -> None:
    environ = {"SUNDOG_memory_usage_threshold": "", "RAY_memory_usage_threshold": "0.5"}
    assert config.load(None, environ).memory_usage_threshold == 0.5


@pytest.mark.parametrize(
    ("text", "value"), [("1", True), ("true", True), ("ON", True), ("0", False), ("No", False)]
)
def test_a_flag_understands_the_usual_words(text: str, value: bool) -> None:
    assert config.load(None, {"SUNDOG_log_to_driver": text}).log_to_driver is value


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("batch_max", "many"),
        ("batch_max", "1.5"),
        ("batch_max", "0"),
        ("prefetch_ms", "nan"),
        ("prefetch_ms", "inf"),
        ("memory_usage_threshold", "1.01"),
        ("dashboard_port", "65536"),
        ("log_to_driver", "perhaps"),
    ],
)
def test_a_bad_value_is_an_error_that_names_the_variable(name: str, text: str) -> None:
    with pytest.raises(ValueError, match=f"RAY_{name}") as caught:
        config.load(None, {f"RAY_{name}": text})
    assert repr(text) in str(caught.value)


def test_a_bad_value_in_system_config_is_an_error_that_names_the_key() -> None:
    with pytest.raises(ValueError, match=r"_system_config\['batch_max'\]"):
        config.load({"batch_max": True}, {})
    with pytest.raises(ValueError, match=r"_system_config\['temp_dir'\]"):
        config.load({"temp_dir": 3}, {})


def test_a_whole_float_is_a_whole_number() -> None:
    assert config.load({"memory_monitor_refresh_ms": 100.0}, {}).memory_monitor_refresh_ms == 100
    with pytest.raises(ValueError, match="whole number"):
        config.load({"memory_monitor_refresh_ms": 100.5}, {})


def test_an_unknown_key_is_an_error_with_the_nearest_and_all_valid_ones() -> None:
    with pytest.raises(ValueError, match="Did you mean 'spin_us'") as caught:
        config.load({"spin_ms": 1}, {})
    assert all(setting.name in str(caught.value) for setting in config.describe())


def test_a_path_is_accepted_where_a_text_is(tmp_path: Path) -> None:
    assert config.load({"temp_dir": tmp_path}, {}).temp_dir == str(tmp_path)


def test_the_process_environment_is_read_when_none_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUNDOG_batch_max", "7")
    assert config.load().batch_max == 7


def test_the_environment_for_children_is_a_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUNDOG_TEST_KEPT", "1")
    copy = config.user_environ()
    copy["SUNDOG_TEST_KEPT"] = "2"
    assert os.environ["SUNDOG_TEST_KEPT"] == "1"


def test_set_child_environ_sets_and_removes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUNDOG_TEST_GONE", "1")
    monkeypatch.delenv("SUNDOG_TEST_NEW", raising=False)
    config.set_child_environ({"SUNDOG_TEST_GONE": None, "SUNDOG_TEST_NEW": "x", "SUNDOG_TEST_NEVER": None})
    try:
        assert "SUNDOG_TEST_GONE" not in os.environ
        assert config.user_environ()["SUNDOG_TEST_NEW"] == "x"
    finally:
        del os.environ["SUNDOG_TEST_NEW"]


def test_a_setting_that_only_ray_knows_is_accepted_and_listed_as_without_effect() -> None:
    given = {"worker_lease_timeout_milliseconds": 0, "batch_max": 3}
    assert config.load(given, {}).batch_max == 3
    assert config.without_effect(given, {"RAY_event_stats": "0", "RAY_spin_us": "0"}) == [
        "worker_lease_timeout_milliseconds",
        "RAY_event_stats",
    ]


def test_a_name_that_neither_knows_is_refused_with_the_nearest_of_both() -> None:
    with pytest.raises(ValueError, match="worker_lease_timeout_milliseconds"):
        config.load({"worker_lease_timeout_millisecond": 0}, {})


def test_rays_name_of_a_setting_of_ours_sets_ours() -> None:
    given = {"idle_worker_killing_time_threshold_ms": 1500, "max_direct_call_object_size": 7}
    loaded = config.load(given, {})
    assert (loaded.idle_worker_s, loaded.inline_max_bytes) == (1.5, 7)
    from_variable = config.load(None, {"RAY_max_direct_call_object_size": "9"})
    assert from_variable.inline_max_bytes == 9
    assert config.load(None, {"RAY_max_direct_call_object_size": "9", "SUNDOG_inline_max_bytes": "8"}) == (
        config.Config(inline_max_bytes=8)
    )


def test_a_mistyped_variable_of_ours_is_found_with_the_nearest() -> None:
    assert config.mistyped({"SUNDOG_batch_maxx": "1", "RAY_batch_maxx": "1", "SUNDOG_BATCH_MAX": "1"}) == [
        ("SUNDOG_batch_maxx", "SUNDOG_batch_max")
    ]
    assert config.mistyped({"SUNDOG_qqqqqqqq": "1"}) == [("SUNDOG_qqqqqqqq", "")]
