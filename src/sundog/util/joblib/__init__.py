"""joblib on sundog: `register_ray()`, then `joblib.parallel_backend("ray")`. joblib is optional."""

from __future__ import annotations


def register_ray() -> None:
    """Teach joblib the backend "ray" (and, the same one, "sundog").

    Raises:
        ImportError: joblib is not installed.

    Example:
        >>> register_ray()  # doctest: +SKIP
        >>> with joblib.parallel_backend("ray"):  # doctest: +SKIP
        ...     joblib.Parallel()(joblib.delayed(abs)(x) for x in [-1, -2])
    """
    try:
        from joblib.parallel import register_parallel_backend
    except ImportError as error:
        raise ImportError(
            "register_ray() needs joblib, which is not installed here. Install it: pip install joblib"
        ) from error
    from sundog.util.joblib.ray_backend import RayBackend

    register_parallel_backend("ray", RayBackend)
    register_parallel_backend("sundog", RayBackend)


__all__ = ["register_ray"]
