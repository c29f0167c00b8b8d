"""When it happens: the copy of a result is gone, and the tasks that could compute it again may not run, or need
something that is gone too. The message shows the chain from the object that was asked for to the one that cannot be
computed, and says why: `max_retries` used up or 0, a dead actor, lineage dropped beyond `max_lineage_bytes`, a lost
`put`.

What to do: follow the last line of the message. For most programs, leave `max_retries` and `max_lineage_bytes` at their
defaults."""

# mypy: disable-error-code="untyped-decorator"
from __future__ import annotations

from sundog.exceptions import ObjectReconstructionFailedError

RAISES = ObjectReconstructionFailedError


def happen() -> None:
    import contextlib
    import os

    import sundog as ray
    from sundog.owner import context

    ray.init(num_cpus=1, _system_config={"max_lineage_bytes": 1000})

    @ray.remote
    def load() -> bytes:
        return b"x" * 1_000_000

    @ray.remote
    def clean(data: bytes) -> bytes:
        return data.upper()

    loaded = load.remote()
    cleaned = clean.remote(loaded)
    ray.wait([cleaned])
    del loaded
    folder = context.facts.session["shm_root"]
    for name in os.listdir(folder):
        if not name.startswith("."):
            with contextlib.suppress(FileNotFoundError):  # what nobody needs any more goes by itself
                os.unlink(f"{folder}/{name}")
    ray.get(cleaned)
