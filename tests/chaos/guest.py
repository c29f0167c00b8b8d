"""A second driver in the session of another: ``python -m tests.chaos.guest <session> <notes> <key>``.

Makes objects by tasks that may be tried for ever, so that whatever is killed it must get every value. Ends with
status 1 and the reason if it does not. Ends at once, as if killed, when its standard input does: with who started it,
for a session lives as long as its last driver.
"""

from __future__ import annotations

import os
import sys
import threading

import sundog
from tests.chaos import bodies
from tests.chaos.contents import LARGE, SMALL, content, mixed, same

ROUNDS = 12
PATIENCE_S = 120.0


def main(session: str, folder: str, key: str) -> None:
    """Join, work, leave."""
    threading.Thread(target=_end_with_host, daemon=True).start()
    sundog.init(address=session, log_to_driver=False)
    print("begun", flush=True)
    for number in range(ROUNDS):
        mark, size = f"{key}-guest-{number}", LARGE if number % 3 == 0 else SMALL
        made = bodies.make.options(max_retries=-1).remote(folder, mark, bodies.Fate(), size)
        mix = bodies.mix.options(max_retries=-1).remote(folder, f"{mark}.mix", bodies.Fate(), size, made)
        expected = content(mixed(f"{mark}.mix", [content(mark, size)]), size)
        if not same(sundog.get(mix, timeout=PATIENCE_S), expected):
            sys.exit(f"other bytes for {mark}")
    sundog.shutdown()


def _end_with_host() -> None:
    sys.stdin.read()
    os._exit(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
