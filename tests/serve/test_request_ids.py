"""Names of requests."""

import os
import uuid

from sundog.serve.request_ids import new_request_id, next_internal_id


def test_a_request_id_is_a_random_uuid_and_no_two_are_alike() -> None:
    found = {new_request_id() for _ in range(1000)} | {next_internal_id() for _ in range(1000)}
    assert len(found) == 2000
    parsed = uuid.UUID(new_request_id())
    assert (parsed.version, parsed.variant) == (4, uuid.RFC_4122)


def test_a_forked_process_makes_other_ids() -> None:
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(write, f"{new_request_id()} {next_internal_id()}".encode())
        os._exit(0)
    os.waitpid(pid, 0)
    ours = {new_request_id(), next_internal_id()}
    assert not ours & set(os.read(read, 1000).decode().split())
    os.close(read)
    os.close(write)
