"""`sundog serve` as far as it needs no session: building configs, and arguments that are wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from sundog.cli import exits, serve
from sundog.serve.schema import ServeDeploySchema

MODULE = """
from sundog import serve

@serve.deployment(num_replicas=2)
class Hello:
    pass

app = Hello.bind()
"""


def test_a_config_that_is_built_can_be_deployed(tmp_path: Path) -> None:
    (tmp_path / "built_app.py").write_text(MODULE, encoding="utf-8")
    done = CliRunner().invoke(serve.command, ["build", "built_app:app", "-d", str(tmp_path)])

    assert done.exception is None or isinstance(done.exception, SystemExit)
    config = yaml.safe_load(done.output)
    assert config["applications"][0]["deployments"] == [{"name": "Hello", "num_replicas": 2}]
    assert ServeDeploySchema.model_validate(config).applications[0].import_path == "built_app:app"


def test_what_is_wrong_is_said_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(exits.CommandError, match="KEY=VALUE"):
        serve._pair("nonsense")
    with pytest.raises(exits.CommandError, match="cannot read"):
        serve._load(str(tmp_path / "none.yaml"))
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text("- a list", encoding="utf-8")
    with pytest.raises(exits.CommandError, match="mapping"):
        serve._load(str(wrong))
    with pytest.raises(exits.CommandError, match="import_path"):
        serve._asked(lambda: ServeDeploySchema.model_validate({"applications": [{"import_path": "x"}]}))
