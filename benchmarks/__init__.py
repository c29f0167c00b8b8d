"""Measures sundog beside Ray, Dask, ProcessPoolExecutor, multiprocessing.Pool and the raw limit.

Run it with `python -m benchmarks` (or `make bench`). Kept empty on purpose: the start-up program imports this
package, and whatever is imported here would be counted into nobody's start-up time.

```
 __main__ ── turns ──► host    (one process per system and group of cases; one alive at a time)
                  └──► startup (one fresh process per sample: import, first result, shutdown, idle)
    │          host ──► systems/<name>   the five verbs of one system
    │               └─► cases/*          what is measured, written once for all systems
    └── results ──► table, picture, targets, readme
```
"""
