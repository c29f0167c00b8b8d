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


USED_UP = """
    import os, threading
    def use_up():
        held = []
        try:
            while True:
                held.append(os.open("/dev/null", os.O_RDONLY))
        except OSError:
            return held
    def free(held):
        for fd in held: os.close(fd)
        held.clear()
    @ray.remote
    def same(value): return value
    """


def test_a_driver_that_has_used_up_its_descriptors_goes_on_when_it_has_some_again() -> None:
    program = drivers.join(
        PROGRAM.replace("MOST", "200"),
        USED_UP,
        """
        @ray.remote
        class Owner:
            def make(self): return [ray.put(7)]
        owner = Owner.remote()
        [borrowed] = ray.get(owner.make.remote())
        kept = ray.put([1, 2])
        @ray.remote
        def ask(refs): return ray.get(refs[0])
        ray.get([same.remote(0), ask.remote([ray.put(1)])])
        held = use_up()
        first = [ask.remote([kept]), borrowed]
        late, _ = ray.wait(first, num_returns=2, timeout=0.5)
        print(len(late) < 2)
        free(held)
        print(ray.get(first, timeout=60))
        """,
    )
    with drivers.running(program) as driver:
        assert driver.line() == "True"
        assert driver.line() == "[[1, 2], 7]"
        driver.rest()
        driver.close()
        warnings = [line for line in driver.errors if "file descriptors" in line]
        assert len(warnings) == 1 and "close files" in warnings[0], driver.errors
        assert not any("Traceback" in line for line in driver.errors), driver.errors


def test_an_actor_that_has_used_up_its_descriptors_dies_of_that_in_so_many_words() -> None:
    program = drivers.join(
        PROGRAM.replace("MOST", "300"),
        USED_UP,
        """
        @ray.remote
        class Leaks:
            def leak(self): self.held = use_up()
            def one(self): return 1
        @ray.remote(num_cpus=0)
        def call(leaks): return ray.get(leaks.one.remote())
        leaks = Leaks.remote()
        ray.get(leaks.leak.remote())
        try:
            ray.get(call.remote(leaks), timeout=60)
        except ray.exceptions.RayTaskError as error:
            print("had used up its 300 file descriptors" in str(error))
        print(ray.get(same.remote(2)))
        """,
    )
    assert drivers.run(program)[-2:] == ["True", "2"]


def test_a_node_without_a_free_descriptor_lives_on_and_says_so() -> None:
    program = drivers.join(
        PROGRAM.replace("MOST", "300"),
        USED_UP,
        """
        print(ray.get(same.remote(1)))
        node = [int(p) for p in open(f"/proc/self/task/{os.getpid()}/children").read().split()][0]
        limits_before = resource.prlimit(node, resource.RLIMIT_NOFILE)
        used = len(os.listdir(f"/proc/{node}/fd"))
        resource.prlimit(node, resource.RLIMIT_NOFILE, (used, limits_before[1]))
        lost = [One.remote() for _ in range(4)]
        ray.wait([each.limit.remote() for each in lost], num_returns=4, timeout=1)
        resource.prlimit(node, resource.RLIMIT_NOFILE, limits_before)
        print(len(ray.get([same.remote(n) for n in range(10)], timeout=60)))
        print(ray.get(One.remote().limit.remote(), timeout=60) > 0)
        """,
    )
    with drivers.running(program) as driver:
        assert [driver.line(), driver.line(), driver.line()] == ["1", "10", "True"]
        driver.rest()
        driver.close()
        assert any("The node" in line and "file descriptors" in line for line in driver.errors), driver.errors
