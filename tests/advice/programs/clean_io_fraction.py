"""Tasks that wait for the network, rightly declared as a tenth of a CPU."""

import time

import sundog as ray

ray.init(num_cpus=2)


@ray.remote(num_cpus=0.1)
def ping(host):
    time.sleep(0.25)
    return host


print(len(ray.get([ping.remote(i) for i in range(60)])))
