"""Render frames, then upload each to a store that refuses every third connection at first."""

import os
import tempfile
import time

import sundog

folder = tempfile.mkdtemp()


@sundog.remote(max_retries=3, retry_exceptions=[ConnectionError])
def render_and_upload(frame):
    time.sleep(0.12)  # renders
    mark = os.path.join(folder, str(frame))
    for _ in range(3):
        try:
            return upload(frame, mark)
        except ConnectionError:
            continue


def upload(frame, mark):
    if frame % 3 == 0 and not os.path.exists(mark):
        open(mark, "w").close()
        raise ConnectionError("refused")
    return frame


sundog.init(num_cpus=2)
frames = [render_and_upload.remote(n) for n in range(12)]
print(len(sundog.get(frames)))
