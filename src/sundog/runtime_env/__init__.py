"""The environment a task or actor asks for: variables, working directory, modules, pip packages.

```
 user's dict ─► RuntimeEnv (checked) ─► normalize() in the submitting process ─► NormalEnv, .key
                                                │ copies working_dir, py_modules        │ travels
                                                ▼                                       ▼
                    <session>/runtime_resources/…/<content hash>     in each worker: prepare(), apply_in_worker()
                                                                                        │ pip, in the first
                                                                                        ▼
                                                          a virtual environment, cached by its packages
```

Owns: checking and merging the user's mapping, snapshots of directories by content, cached pip environments,
and applying all of it. Refuses: conda and containers (it says so), downloading from remote URIs, and reading
`os.environ` by itself. `normalize` runs in drivers and workers that submit, on the calling thread: a folder is
copied as it is at that moment. `prepare` runs in the first worker of the environment, before any task, and takes
seconds to minutes, once per set of packages; other workers of the environment wait for it, submitters do not.

Guarantees: equal content gives an equal `key`, in every process. The parts: fields.py (what users write),
snapshot.py (copies), normal.py (resolve and apply), installs.py (pip).
"""

from __future__ import annotations

from sundog.runtime_env.fields import RuntimeEnv, RuntimeEnvConfig, merge
from sundog.runtime_env.normal import NormalEnv, normalize


def prepare(env: NormalEnv) -> None:
    """Make the pip environment of `env`, unless it is there; see installs.py."""
    # Imported on use: few workers have packages to install.
    from sundog.runtime_env import installs

    installs.prepare(env)


__all__ = ["RuntimeEnv", "RuntimeEnvConfig", "NormalEnv", "normalize", "merge", "prepare"]
