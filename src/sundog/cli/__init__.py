"""The command `sundog`: one file per command, imported when that command is called.

Owns the group, its help page and the rule that a command's module is loaded only to run it: `sundog --help`
and shell completion stay as quick as Python itself. Which exit code an error becomes is decided in `exits`.
Runs in the user's terminal process, main thread; a script started by `sundog run` then goes on in this same
process, after every frame of the command line has been left (see `run`).
"""

import importlib
from collections.abc import Sequence
from typing import Any

import click

from sundog.cli import exits

# Name → one line of help, here so that the help page needs no import. A test holds it against each command.
COMMANDS = {
    "run": "Run a Python program that says `import ray`, unchanged.",
    "dashboard": "Show a session's page in the browser; running, ended, or a file.",
    "demo": "Run a small program and show what the recording says about it.",
    "start": "Start a session that outlives this command.",
    "stop": "Stop the sessions of `sundog start` on this machine.",
    "health-check": "Exit with 0 if a session answers.",
    "status": "Show what a running session has, runs and waits for.",
    "list": "List tasks, actors, objects and everything else that a session has.",
    "get": "Show all that is known about one task, actor or object.",
    "summary": "Count tasks by name, actors by class, objects by call site.",
    "top": "Watch functions, workers and the machine, live.",
    "stack": "Show what every process is doing right now.",
    "memory": "Show which process holds which object, and where the memory is.",
    "logs": "Show what the processes of a session printed.",
    "why": "Explain why something waits, is slow, failed or died.",
    "doctor": "Show what kept a run from being faster, and what to change.",
    "diff": "Compare two sessions, function by function.",
    "rehearse": "Predict a recorded run on another machine.",
    "timeline": "Write a timeline, for a trace viewer or as a page.",
    "sql": "Query the records of a session with SQL.",
    "session": "List sessions, running and ended; pack one into a file.",
    "debug": "List paused tasks and attach pdb to one.",
    "break": "Set a breakpoint in a running session.",
    "replay": "Run a failed task again in this terminal.",
    "capsule": "List, export and open the capsules of tasks.",
    "capture": "Keep a capsule of each run of a function.",
    "profile": "Show where time and memory go, by function.",
    "kill-actor": "End a named actor.",
    "job": "Submit jobs to a session, and watch, stop and list them.",
    "serve": "Run, update and watch Serve applications.",
    "microbenchmark": "Measure the headline cases on this machine.",
}


class LazyGroup(click.Group):
    """A group that knows its commands by name and imports `sundog.cli.<name>` for the one that is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [
            *COMMANDS
        ]  # not list(): sundog.cli.list is a command, and once it is loaded it stands in this module

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command = importlib.import_module(f"sundog.cli.{cmd_name.replace('-', '_')}").command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([*COMMANDS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            exits.raise_unknown_command(args[0], [*COMMANDS], ctx)
        return super().resolve_command(ctx, args)

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: object,
    ) -> Any:
        """Parse, run the command, exit with its code.

        A command may return a callable: it is called once the command line is off the stack, outside of
        every rule above about errors. `sundog run` needs that: what a user's script raises is the script's
        own affair.
        """
        if not standalone_mode:
            return super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
        with exits.mapped():
            # Not the file's name: `python -m sundog.cli` would call itself __main__.py in every usage line.
            name = prog_name or "sundog"
            followed_by = super().main(args, name, complete_var, standalone_mode=False, **extra)
        if callable(followed_by):
            followed_by()
        raise SystemExit(followed_by if isinstance(followed_by, int) else exits.OK)


def _show_version(ctx: click.Context, _option: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        import sundog

        click.echo(f"sundog {sundog.__version__}")
        ctx.exit()


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version.",
)
def main() -> None:
    """sundog runs Ray Core programs: fast to start, cheap per task, and able to explain itself."""
