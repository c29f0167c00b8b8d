"""The joblib backend: joblib's batches run in a `Pool`.

Owns one pool per `Parallel` block. joblib's own machinery (batching, retrieval, abort) is kept: only
where the pool comes from and how many jobs there are is decided here.
"""

from __future__ import annotations

from typing import Any

from joblib._parallel_backends import MultiprocessingBackend, SequentialBackend

import sundog
from sundog.util.multiprocessing.pool import Pool


class RayBackend(MultiprocessingBackend):  # type: ignore[misc]  # joblib is untyped
    """Run joblib's jobs on the session's CPUs.

    Args:
        nesting_level: Given by joblib.
        inner_max_num_threads: Given by joblib.
        ray_remote_args: Options of the actors that run the jobs.
    """

    supports_timeout = True
    _pool: Pool | None = None

    def __init__(
        self,
        nesting_level: int | None = None,
        inner_max_num_threads: int | None = None,
        ray_remote_args: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(nesting_level=nesting_level, inner_max_num_threads=inner_max_num_threads, **kwargs)
        self.ray_remote_args = ray_remote_args

    def effective_n_jobs(self, n_jobs: int | None) -> int:
        """How many jobs run at once: -1 means all CPUs of the session, -2 all but one, and so on."""
        if n_jobs == 0:
            raise ValueError("n_jobs == 0 in Parallel has no meaning")
        if n_jobs is None:
            return 1
        if not sundog.is_initialized():
            sundog.init()
        cpus = int(sundog.cluster_resources().get("CPU", 1))
        if n_jobs < 0:
            return max(1, cpus + 1 + n_jobs)
        return min(n_jobs, cpus)

    def configure(
        self,
        n_jobs: int = 1,
        parallel: Any = None,
        prefer: str | None = None,
        require: str | None = None,
        ray_remote_args: dict[str, Any] | None = None,
        **memmappingpool_args: Any,
    ) -> int:
        """Start the pool. `ray_remote_args` wins over the one given to the constructor."""
        count = self.effective_n_jobs(n_jobs)
        if count == 1:
            from joblib._parallel_backends import FallbackToBackend

            raise FallbackToBackend(SequentialBackend(nesting_level=self.nesting_level))
        self._pool = Pool(count, ray_remote_args=ray_remote_args or self.ray_remote_args)
        self.parallel = parallel
        return count

    def terminate(self) -> None:
        """End the pool; waits for its thread, so that nothing of it is left behind."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.terminate()
            pool.join()
        self.reset_batch_stats()
