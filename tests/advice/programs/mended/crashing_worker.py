"""A native library that kills its process now and then."""

import os
import tempfile
import time

import sundog as ray

ray.init(num_cpus=4)
folder = tempfile.mkdtemp()


@ray.remote(max_retries=3)
def decode(number, crash):
    time.sleep(0.2)
    mark = os.path.join(folder, str(number))
    if crash and number % 4 == 1 and not os.path.exists(mark):
        open(mark, "w").close()
        os._exit(1)
    return number


work = [decode.remote(i, False) for i in range(24)]
print(len(ray.get(work)))
