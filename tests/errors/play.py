"""The driver process of a scene: runs its program, and writes down what it raised.

``python -m tests.errors.play PROGRAM ANSWER``. The program runs as `__main__`, as a user's would.
"""

from __future__ import annotations

import json
import pickle
import runpy
import sys
from pathlib import Path
from typing import Any

import sundog

_UNTOLD = ("message", "traceback_str", "proctitle")  # the message again, or not of this error
_VALUE_MAX = 90


def main(program: str, answer: str) -> None:
    """Run `program`; its error goes to the file `answer`, and its session is shut down."""
    try:
        runpy.run_path(program, run_name="__main__")
    except BaseException as error:
        Path(answer).write_text(json.dumps(describe(error)), encoding="utf-8")
    finally:
        sundog.shutdown()


def describe(error: BaseException) -> dict[str, Any]:
    """What an error is and says, and whether another process would be told the same."""
    back = pickle.loads(pickle.dumps(error))
    return {
        "type": type(error).__name__,
        "bases": [cls.__name__ for cls in type(error).__mro__],
        "message": str(error),
        "facts": facts(error),
        "pickles": type(back).__name__ == type(error).__name__
        and str(back) == str(error)
        and facts(back) == facts(error),
    }


def facts(error: BaseException) -> dict[str, str]:
    """The attributes that carry evidence, in short."""
    known = {name: value for name, value in vars(error).items() if name not in _UNTOLD and value is not None}
    return {name: _short(value) for name, value in known.items()}


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _VALUE_MAX else f"{text[: text.find(' ', _VALUE_MAX // 2)]} …"


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
