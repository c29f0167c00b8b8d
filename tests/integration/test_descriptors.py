"""File descriptors: limits raised in every process, and new actors that wait, with one message, when they are short."""

from __future__ import annotations

from tests.integration import drivers

PROGRAM = """
    import resource
    resource.setrlimit(resource.RLIMIT_NOFILE, (100, MOST))
    ray.init(num_cpus=2)

    @ray.remote(num_cpus=0)
    class One:
        def limit(self):
            import resource
            return resource.getrlimit(resource.RLIMIT_NOFILE)[0]

    def limits(number):
        actors = [One.remote() for _ in range(number)]
        by_ref = {actor.limit.remote(): actor for actor in actors}
        del actors
        return by_ref
    """


def test_every_process_may_use_what_the_system_allows() -> None:
    lines = drivers.run(
        drivers.join(
            PROGRAM.replace("MOST", "300"),
            """
            by_ref = limits(1)
            import os
            node = [int(p) for p in open(f"/proc/self/task/{os.getpid()}/children").read().split()][0]
            print(resource.getrlimit(resource.RLIMIT_NOFILE)[0], resource.prlimit(node, resource.RLIMIT_NOFILE)[0],
                  ray.get(list(by_ref))[0])
            """,
        )
    )
    assert lines[-1] == "300 300 300"


def test_near_the_limit_new_actors_wait_for_others_to_end_and_the_driver_says_so_once() -> None:
    program = drivers.join(
        PROGRAM.replace("MOST", "110"),
        """
        by_ref = limits(110)
        left = list(by_ref)
        alive_at_most = 0
        while left:
            ready, left = ray.wait(left)
            assert ray.get(ready) == [110]
            alive_at_most = max(alive_at_most, len(by_ref))
            for ref in ready:
                del by_ref[ref]
        del ready, ref
        print("all of them answered")
        # And with room again, the next ones come up as ever.
        print(sum(ray.get(list(limits(3)))))
        """,
    )
    with drivers.running(program) as driver:
        assert driver.line() == "all of them answered"
        assert driver.line() == "330"
        driver.rest()
        driver.close()
        warnings = [line for line in driver.errors if "file descriptors" in line]
        assert len(warnings) == 1, driver.errors
        assert "new actors and workers wait until some end" in warnings[0]
