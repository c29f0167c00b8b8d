"""These tests need a Ray cluster: `make test-ray` (tests/on_ray.py) gives them one."""

from tests.both_engines import ON_RAY

collect_ignore_glob = [] if ON_RAY else ["test_*.py"]
