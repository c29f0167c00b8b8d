"""The environment a task or actor asks for: variables, working directory, modules, pip packages.

```
 user's dict ─► RuntimeEnv (checked) ─► normalize() in the submitting process ─► NormalEnv, .key
                                                │ copies working_dir, py_modules        │ travels
                                                ▼                                       ▼
                    <session>/runtime_resources/…/<content hash>     apply_in_worker() in each worker
                                                │ prepare(), if it has pip packages
                                                ▼
                    a virtual environment, cached by its packages
```

Owns: checking and merging the user's mapping, snapshots of directories by content, cached pip environments,
and applying all of it. Refuses: conda and containers (it says so), downloading from remote URIs, and reading
`os.environ` by itself. `normalize` and `prepare` run in drivers and workers that submit, on the calling
thread; `prepare` takes seconds to minutes, once per set of packages, and the caller waits.

Guarantees: equal content gives an equal `key`, in every process. The parts: fields.py (what users write),
snapshot.py (copies), normal.py (resolve and apply), installs.py (pip).
"""

from __future__ import annotations

from sundog.runtime_env.fields import RuntimeEnv, RuntimeEnvConfig, merge
from sundog.runtime_env.normal import NormalEnv, normalize


def prepare(env: NormalEnv) -> None:
    """Make the pip environment of `env`, unless it is there; see installs.py."""
    # Imported on use: only the node's subprocess needs what starts subprocesses.
    from sundog.runtime_env import installs

    installs.prepare(env)


__all__ = ["RuntimeEnv", "RuntimeEnvConfig", "NormalEnv", "normalize", "merge", "prepare"]
