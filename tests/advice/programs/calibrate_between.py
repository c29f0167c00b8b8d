"""Readings are made in tasks and smoothed in tasks; in between the program calibrates every part by itself."""

import random
from dataclasses import dataclass

import sundog as ray


@dataclass
class Options:
    sensors: int = 8
    readings: int = 30_000


@ray.remote
def measure(sensor, count):
    draw = random.Random(sensor)
    return [draw.random() for _ in range(count)]


@ray.remote
def smooth(part):
    total, out = 0.0, []
    for value in part:
        total = 0.9 * total + 0.1 * value
        out.append(total)
    return max(out)


def calibrate(part):
    low, high = min(part), max(part)
    for _ in range(10):
        part = [(value - low) / (high - low) + 0.01 * value * value for value in part]
        low, high = min(part), max(part)
    return part


def main(options):
    ray.init()
    parts = ray.get([measure.remote(sensor, options.readings) for sensor in range(options.sensors)])
    calibrated = {}
    for sensor, part in enumerate(parts):
        calibrated[sensor] = calibrate(part)  # fault: serial-part
    peaks = {sensor: smooth.remote(part) for sensor, part in calibrated.items()}
    print(max(ray.get(list(peaks.values()))))


if __name__ == "__main__":
    main(Options())
