"""Render frames, and write each to the video; frames do not have to be in order."""

import time

import sundog as ray


@ray.remote
def render(frame):
    time.sleep(1.3 if frame % 8 == 0 else 0.2)
    return frame, b"x" * 100


def write(video, frame, data):
    time.sleep(0.07)
    video[frame] = data


def main():
    ray.init(num_cpus=8)
    video = {}
    queue = [render.remote(frame) for frame in range(16)]
    while queue:
        ref = queue.pop(0)
        try:
            frame, data = ray.get(ref)  # fault: get-in-order
        except ray.exceptions.RayTaskError:
            continue
        write(video, frame, data)
    print(f"{len(video)} frames")


if __name__ == "__main__":
    main()
