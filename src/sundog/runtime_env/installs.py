"""Cached pip environments for runtime environments.

Owns: making a virtual environment per set of packages, once, however many workers ask. Refuses: changing the
environment of the process that asks. Runs in the first workers of an environment, before any task: the
process that submits waits for nothing. venv and pip are processes of the worker's group, and end with it.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys

from sundog import trust
from sundog.exceptions import RuntimeEnvSetupError
from sundog.runtime_env.normal import NormalEnv

_SITE_FOLDERS = ("site-packages", "dist-packages")
# A module of the user in the working folder must not replace one that venv or pip imports.
_NO_CWD = "-P"
_SHARED = "sundog_shared_packages.pth"


def prepare(env: NormalEnv) -> None:
    """Make the pip environment of `env`, unless it is there; takes seconds to minutes.

    Processes that want the same one wait for the first; an unfinished one is made anew.

    Raises:
        RuntimeEnvSetupError: with pip's last lines, the packages, and where the whole log is.
    """
    if not env.needs_prepare:
        return
    folder = os.path.dirname(env.pip_dir)
    try:
        trust.make_folder(folder)
    except OSError as error:
        raise RuntimeEnvSetupError(
            f"Packages for a runtime_env cannot be installed in {folder}: {error.strerror}.", path=folder
        ) from None
    with open(env.pip_dir + ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the kernel releases the lock when its holder dies
        if not env.needs_prepare:
            return
        trust.remove(env.pip_dir)
        os.mkdir(env.pip_dir, 0o700)  # created here with this mode: venv follows the umask
        _run_step(env, [sys.executable, _NO_CWD, "-m", "venv", *_venv_options(), env.pip_dir])
        _share_packages(env.pip_dir)
        pip = [
            *_pip_of(os.path.join(env.pip_dir, "bin", "python")),
            "--disable-pip-version-check",
            "--no-input",
        ]
        # As a file, for a requirements line may be an option or carry a marker.
        requirements = os.path.join(env.pip_dir, "requirements.txt")
        with open(requirements, "w", encoding="utf-8") as file:
            file.write("\n".join(env.pip) + "\n")
        _run_step(env, [*pip, "install", *env.pip_options, "-r", requirements])
        if env.pip_check:
            _run_step(env, [*pip, "check"])
        with open(os.path.join(env.pip_dir, ".ready"), "w"):
            pass


def _share_packages(pip_dir: str) -> None:
    """Let an environment see the packages that this process can import: those and no others count as installed.

    The option of venv for this would share the packages of the interpreter that the user's own virtual environment was
    made from: pip would find some of them there and install nothing, and the worker, which is in the user's, would not.
    """
    name = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    seen = [path for path in sys.path if os.path.basename(path) in _SITE_FOLDERS and os.path.isabs(path)]
    with open(os.path.join(pip_dir, "lib", name, "site-packages", _SHARED), "w", encoding="utf-8") as file:
        file.writelines(f"{path}\n" for path in dict.fromkeys(seen))


def _has_own_pip() -> bool:
    """Whether this interpreter's pip can install into another environment (`--python`, since 22.3)."""
    import importlib.metadata

    try:
        major, minor = importlib.metadata.version("pip").split(".")[:2]
        return (int(major), int(minor)) >= (22, 3)
    except (importlib.metadata.PackageNotFoundError, ValueError):
        return False


def _venv_options() -> list[str]:
    # Unpacking a second pip takes most of the time that making a virtual environment takes.
    return ["--without-pip"] if _has_own_pip() else []


def _pip_of(python: str) -> list[str]:
    if _has_own_pip():
        return [sys.executable, _NO_CWD, "-m", "pip", "--python", python]
    return [python, _NO_CWD, "-m", "pip"]


def _run_step(env: NormalEnv, command: list[str]) -> None:
    log_path = env.pip_dir + ".log"
    timeout = None if env.setup_timeout_s == -1 else env.setup_timeout_s
    with open(log_path, "ab+") as log:
        start = log.seek(0, os.SEEK_END)
        try:
            code: int | None = subprocess.run(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, timeout=timeout, check=False
            ).returncode
        except subprocess.TimeoutExpired:
            code = None
        log.seek(start)
        lines = log.read().decode("utf-8", "replace").rstrip().splitlines()[-20:]
    if code == 0:
        return
    how = f"took longer than {env.setup_timeout_s} s" if code is None else f"ended with exit code {code}"
    trust.remove(env.pip_dir)
    raise RuntimeEnvSetupError(
        f"Installing {', '.join(env.pip)} for a runtime_env failed: `{' '.join(command)}` {how}. Its last "
        f"lines:\n" + "\n".join(f"  {line}" for line in lines) + f"\nThe whole log: {log_path}",
        packages=list(env.pip),
        exit_code=code,
        log_path=log_path,
    )
