"""`python -m tests.rules`: remove from the lists of known breaches what is mended. Adds nothing."""

from __future__ import annotations

from tests.rules import breaches, names
from tests.rules.breaches import LISTS


def main() -> None:
    for which, find in (breaches.CHECKS | names.CHECKS).items():
        path, found = LISTS / f"{which}.txt", find()
        lines = path.read_text().splitlines()
        kept = [line for line in lines if not line.strip() or line.startswith("#") or line.strip() in found]
        path.write_text("\n".join(kept) + "\n")
        print(f"{path.name}: {len(lines) - len(kept)} removed, {len(found)} left")


if __name__ == "__main__":
    main()
