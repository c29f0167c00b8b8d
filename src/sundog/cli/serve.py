"""`sundog serve run|deploy|config|status|build|rollback|history|promote|shutdown`: Serve from the terminal.

Owns the commands and their pages. What they do is in `sundog.serve.operations`. Runs in the terminal's process,
main thread; each command joins the session of `sundog start`, and `run` starts one of its own if there is none.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sundog.cli import exits, rows

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from sundog.plain import JsonObject
    from sundog.serve.deployment import Application

    T = TypeVar("T")

_address = click.option(
    "--address", "-a", default=None, help="The address of the session; by default the running one."
)


def _join(address: str | None) -> None:
    """Be in a session that runs."""
    import sundog

    try:
        sundog.init(address=address or "auto", namespace="serve", log_to_driver=False)
    except ConnectionError as error:
        raise exits.CommandError(f"{error} Start a session with: sundog start --head") from None


def _yaml(value: object) -> str:
    import yaml

    return str(yaml.safe_dump(value, sort_keys=False, default_flow_style=False))


def _load(path: str) -> JsonObject:
    import yaml

    try:
        found = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise exits.CommandError(f"cannot read the config {path}: {error}") from None
    if not isinstance(found, dict):
        raise exits.CommandError(f"the config {path} is not a mapping with the key `applications`.")
    return found


def _asked(do: Callable[[], T]) -> T:
    """Do it; errors of Serve as one sentence."""
    from pydantic import ValidationError

    from sundog.serve.exceptions import RayServeException

    try:
        return do()
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(each) for each in first["loc"])
        raise exits.CommandError(f"the config is wrong at {where or 'its top'}: {first['msg']}") from None
    except (RayServeException, RuntimeError, ValueError) as error:
        raise exits.CommandError(str(error)) from None


_EXAMPLES = rows.examples(
    ("sundog serve run module:app", "run an application until Ctrl-C"),
    ("sundog serve build module:app -o app.yaml", "write a config for it"),
    ("sundog serve deploy app.yaml", "deploy or update what the config names"),
    ("sundog serve deploy app.yaml --canary 5%", "the new version gets a twentieth of the requests"),
    ("sundog serve status", "the state of applications and replicas"),
    ("sundog serve rollback NAME", "return to the version before"),
)


@click.group("serve", short_help="Run, update and watch Serve applications.", epilog=_EXAMPLES)
def command() -> None:
    """Run, update and watch Serve applications."""


@command.command("run")
@click.argument("config_or_import_path")
@click.argument("arguments", nargs=-1)
@click.option("--app-dir", "-d", default=".", help="The folder of the module; by default the current folder.")
@click.option("--working-dir", default=None, help="Run in this folder.")
@click.option(
    "--blocking/--non-blocking",
    default=True,
    help="Keep running until Ctrl-C (the default), or return at once.",
)
@click.option("--route-prefix", default="/", help="The route prefix of an application given by import path.")
@click.option("--name", default="default", help="The name of an application given by import path.")
@click.option("--port", default=None, type=int, help="The HTTP port; 8000 by default.")
@_address
def run(
    config_or_import_path: str,
    arguments: tuple[str, ...],
    app_dir: str,
    working_dir: str | None,
    blocking: bool,
    route_prefix: str,
    name: str,
    port: int | None,
    address: str | None,
) -> int:
    """Run an application (module:name) or a config file (YAML).

    Further arguments KEY=VALUE are for the builder of the application.
    """
    import sundog
    from sundog import serve

    sys.path.insert(0, os.path.abspath(app_dir))
    if working_dir:
        os.chdir(working_dir)
    sundog.init(address=address, namespace="serve")
    # The session's processes load what they need of Serve while this one does, and while it imports the application.
    from sundog.serve import operations
    from sundog.serve.config_apps import call_builder
    from sundog.serve.imports import import_attr

    try:
        if port is not None:
            _asked(lambda: serve.start(http_options={"port": port}))
        if config_or_import_path.endswith((".yaml", ".yml")):
            config = _load(config_or_import_path)
            _asked(lambda: operations.apply(config, wait=True))
        else:
            values = dict(_pair(each) for each in arguments)
            try:
                app = call_builder(import_attr(config_or_import_path), values)
            except Exception as error:
                raise exits.CommandError(
                    f"cannot import {config_or_import_path}: {type(error).__name__}: {error}"
                ) from None
            prefix = None if route_prefix == "None" else route_prefix
            _asked(lambda: serve.run(app, name=name, route_prefix=prefix))
        click.echo("Deployed app(s) successfully.")
        while blocking:
            time.sleep(3600)
    except KeyboardInterrupt:
        click.echo("Got KeyboardInterrupt, shutting down...", err=True)
    if blocking:
        serve.shutdown()
    return exits.OK


def _pair(text: str) -> tuple[str, str]:
    key, mark, value = text.partition("=")
    if not mark or not key:
        raise exits.CommandError(f"{text!r} is not an argument of the form KEY=VALUE.")
    return key, value


@command.command("deploy")
@click.argument("config_file")
@click.option(
    "--canary", default=None, help="The share of the requests that the new version gets, such as 5%."
)
@click.option("--wait/--no-wait", default=False, help="Wait until the applications run.")
@_address
def deploy(config_file: str, canary: str | None, wait: bool, address: str | None) -> int:
    """Deploy the applications of a config file. Running applications are updated replica by replica."""
    from sundog.serve import operations

    config = _load(config_file)
    _join(address)
    if canary is not None:
        for app in config.get("applications", []):
            for row in app.get("deployments", []):
                row.setdefault("rolling_update_config", {})["canary"] = canary
    names = _asked(lambda: operations.apply(config, wait=wait))
    click.echo(f"Sent the config for {', '.join(names) or 'no application'}. See: sundog serve status")
    return exits.OK


@command.command("status")
@click.option("--name", default=None, help="One application only.")
@_address
def status(name: str | None, address: str | None) -> int:
    """Show the state of the applications."""
    from sundog import serve

    _join(address)
    found = serve.status()
    apps = {
        each: {
            "status": row.status.value,
            "message": row.message,
            "last_deployed_time_s": row.last_deployed_time_s,
            "deployments": {
                key: {
                    "status": inner.status.value,
                    "status_trigger": inner.status_trigger.value,
                    "replica_states": {state.value: count for state, count in inner.replica_states.items()},
                    "message": inner.message,
                }
                for key, inner in row.deployments.items()
            },
        }
        for each, row in found.applications.items()
        if name in (None, each)
    }
    if name is not None and name not in apps:
        raise exits.CommandError(f"application {name!r} does not exist.")
    proxies = {key: value.value for key, value in found.proxies.items()}
    click.echo(
        _yaml({"proxies": proxies, "applications": apps}).rstrip()
        if name is None
        else _yaml(apps[name]).rstrip()
    )
    return exits.OK


@command.command("config")
@click.option("--name", default=None, help="One application only.")
@_address
def config(name: str | None, address: str | None) -> int:
    """Show the configs that applications were deployed with."""
    from sundog.serve import operations

    _join(address)
    apps = _asked(operations.details)["applications"]
    rows = [
        row["deployed_app_config"]
        for key, row in apps.items()
        if row["deployed_app_config"] and name in (None, key)
    ]
    if not rows:
        click.echo(
            "No config has been deployed." if name is None else f"No config for {name!r} has been deployed."
        )
        return exits.OK
    click.echo("\n---\n\n".join(_yaml(each) for each in rows).rstrip())
    return exits.OK


@command.command("build")
@click.argument("import_paths", nargs=-1, required=True)
@click.option("--app-dir", "-d", default=".", help="The folder of the modules.")
@click.option("--output-path", "-o", default=None, help="Write to this file.")
def build(import_paths: tuple[str, ...], app_dir: str, output_path: str | None) -> int:
    """Write a config for applications, to be edited and deployed."""
    from sundog.serve.config_apps import call_builder, config_of
    from sundog.serve.imports import import_attr

    sys.path.insert(0, os.path.abspath(app_dir))
    apps: list[tuple[Application, str, str | None, str]] = []
    for number, path in enumerate(import_paths, 1):
        try:
            app = call_builder(import_attr(path), {})
        except Exception as error:
            raise exits.CommandError(f"cannot import {path}: {type(error).__name__}: {error}") from None
        prefix = "/" if len(import_paths) == 1 else f"/app{number}"
        apps.append((app, f"app{number}", prefix, path))
    text = _yaml(config_of(apps))
    if output_path is None:
        click.echo(text.rstrip())
    else:
        Path(output_path).write_text(text, encoding="utf-8")
    return exits.OK


@command.command("rollback")
@click.argument("name", default="default")
@click.option(
    "--revision", default=None, type=int, help="The number of the revision; see: sundog serve history."
)
@_address
def rollback(name: str, revision: int | None, address: str | None) -> int:
    """Return an application to an earlier revision.

    Without --revision this is the previous one.
    """
    from sundog.serve import operations

    _join(address)
    found = _asked(lambda: operations.roll_back(name, revision))
    click.echo(f"Application {name} goes back to revision {found}. See: sundog serve status")
    return exits.OK


@command.command("promote")
@click.argument("name", default="default")
@_address
def promote(name: str, address: str | None) -> int:
    """Make the canary of an application its only version."""
    from sundog.serve import operations

    _join(address)
    _asked(lambda: operations.promote(name))
    click.echo(f"The canary of application {name} takes over.")
    return exits.OK


@command.command("history")
@click.argument("name", default="default")
@_address
def history(name: str, address: str | None) -> int:
    """List the revisions of an application, with their times."""
    from sundog.serve import operations

    _join(address)
    for row in _asked(lambda: operations.history(name)):
        when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(row.at_s))
        mark = "*" if row.is_current else " "
        versions = ", ".join(f"{key} {value}" for key, value in row.versions.items())
        click.echo(f"{mark} {row.number:>3}  {when}  {row.outcome:<12} {row.what:<16} {versions}")
    return exits.OK


@command.command("shutdown")
@click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
@_address
def shutdown(yes: bool, address: str | None) -> int:
    """End all applications, and Serve."""
    from sundog.serve import operations

    if not yes:
        click.confirm("This ends all Serve applications of the session. Continue?", abort=True)
    _join(address)
    operations.clear()
    click.echo("Serve has been shut down.")
    return exits.OK
