"""Routes of a running session, asked with a plain HTTP client."""

from __future__ import annotations

import sundog as ray
from tests.integration.head.conftest import Head


@ray.remote(num_cpus=0)
class Counter:
    def add(self, x: int) -> int:
        return x + 1


def test_a_running_session_is_told_by_its_routes(head: Head) -> None:
    assert head.get("/api/v0/tasks")["data"]["result"]["result"] == []
    ray.init(address=head.session.path)
    try:
        counter = Counter.remote()
        assert ray.get(counter.add.remote(1)) == 2
        (row,) = head.get("/api/v0/actors", detail="True")["data"]["result"]["result"]
        assert row["class_name"] == "Counter" and row["state"] == "ALIVE"
        found = head.get("/logical/actors")["data"]["actors"]
        assert found[row["actor_id"]]["pid"] == row["pid"]
        names = {each["name"] for each in head.get("/api/v0/tasks")["data"]["result"]["result"]}
        assert "Counter.add" in names
        (node,) = head.get("/nodes", view="summary")["data"]["summary"]
        assert node["raylet"]["state"] == "ALIVE"
        assert head.get(f"/nodes/{node['raylet']['nodeId']}")["data"]["detail"]["workers"]
        stack = head.client.get("/worker/traceback", params={"pid": row["pid"], "ip": "127.0.0.1"})
        assert stack.status_code == 200 and str(row["pid"]) in stack.text
        flame = head.client.get("/worker/cpu_profile", params={"pid": row["pid"], "duration": "0.1"})
        assert flame.status_code == 200 and "<html" in flame.text
        counts = head.get("/api/v0/tasks/summarize")["data"]["result"]["result"]["node_id_to_summary"]
        assert "Counter.add" in counts["cluster"]["summary"]
        log = head.client.get("/api/v0/logs/file", params={"node_ip": "127.0.0.1", "filename": "node.log"})
        assert "head process is started" in log.text
    finally:
        ray.shutdown()
