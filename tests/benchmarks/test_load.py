"""What the load generator of Serve's benchmark reads."""

from benchmarks.serve.load import parse_wrk

TOLD = """
  Latency Distribution
     50%  850.00us
     75%    1.20ms
     90%    2.00ms
     99%    1.20s
  2829 requests in 5.09s, 367.44KB read
  Socket errors: connect 0, read 1, write 0, timeout 2
  Non-2xx or 3xx responses: 3
Requests/sec:    555.96
"""


def test_wrk_is_understood() -> None:
    found = parse_wrk(TOLD)

    assert (found.per_second, found.p50_ms, found.p99_ms, found.failed) == (555.96, 0.85, 1200.0, 6)
