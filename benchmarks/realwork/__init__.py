"""Real work: whole programs as users write them, on every system that has a natural way to do them.

```
 runner (__main__) ── one program run at a time ──► python -m benchmarks.realwork.program <system> <workload>
        ◄── wall time, processor seconds, peak PSS; the program's own times and its result ──
```

Owns the list of workloads. A workload is a module of `programs/`: the functions that do the work, `serial()`
which gives the right result, and one function per way of writing it (`raylike` for sundog and Ray, `futures`,
`pool`, `dask`, `joblib`). The same module runs on every system; a result that differs from the serial one is a
failure. Refuses to emulate: a system without a natural way to write a program is left out of its row.
"""

from __future__ import annotations

import importlib
from types import ModuleType

WORKERS = 2
SYSTEMS = ("sundog", "ray", "dask", "futures", "pool", "loky")
TITLES = {
    "sundog": "sundog",
    "ray": "Ray",
    "dask": "Dask",
    "futures": "concurrent.futures",
    "pool": "multiprocessing",
    "loky": "joblib/loky",
}
# How each system calls its way into a program, and what that function is given.
WAYS = {
    "sundog": "raylike",
    "ray": "raylike",
    "dask": "dask",
    "futures": "futures",
    "pool": "pool",
    "loky": "joblib",
}
WORKLOADS = {
    "grid_search": "scikit-learn GridSearchCV through joblib",
    "grid_search_large": "the same with 32 MB of data",
    "imap": "Pool.imap_unordered, 20,000 items, chunk size 1",
    "pipeline": "three stages, 20,000 small messages, bounded",
    "recursion": "287 recursive tasks that wait for their children",
    "short_tasks": "2,000 tasks of 2 ms",
    "json_files": "400 JSON files read and summed up",
    "cold_script": "20 tasks of 10 ms, from the start of Python",
    "actors": "200 stateful objects created, called, ended",
    "word_count": "words counted in 64 texts, shuffled to 8 reducers",
    "shared_array": "64 tasks that read one array of 64 MB",
    "images": "120 images of 1 MB, filtered",
    "simulation": "Monte Carlo, 200 tasks of 20 ms with NumPy",
    "parameter_server": "gradients from two workers, 100 rounds",
    "tree_reduce": "256 arrays of 80 KB added up as a tree",
    "trials": "400 trials of a search, eight at a time, with wait",
    "loader": "300 batches of 768 KB, eight ahead of their reader",
    "stream": "5,000 rows from a generator, one at a time",
    "fan_out": "asyncio: 1,500 requests of two tasks, 32 at a time",
    "actor_pool": "2,000 items through two models, ActorPool",
    "queue_work": "4,000 orders through a bounded queue, two and two",
    "lists": "200 results, each a list of 5,000 records",
    "thumbnails": "600 thumbnails of 200 photographs, Pool.starmap",
    "etl": "tables of 48 shops cleaned, joined by region, summed up",
    "ring_chat": "five agents in a ring, 2,000 answers",
    "shuffle_arrays": "32 MB of arrays shuffled from 16 tasks to 8",
    "halving": "16 models trained, the worse half stopped, four times",
    "threads": "eight threads of the driver, 200 tasks each, in turn",
}


def load(workload: str) -> ModuleType:
    """The module of a workload.

    Raises:
        ValueError: there is none of this name.
    """
    if workload not in WORKLOADS:
        raise ValueError(f"unknown workload {workload!r}; known: {', '.join(WORKLOADS)}")
    return importlib.import_module(f"benchmarks.realwork.programs.{workload}")


def systems_of(workload: str) -> list[str]:
    """The systems that have a way to run a workload, in the order of the table."""
    module = load(workload)
    return [system for system in SYSTEMS if hasattr(module, WAYS[system])]
