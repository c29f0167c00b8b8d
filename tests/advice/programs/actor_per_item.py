"""An actor is made for each document, asked once, and dropped."""

import time

import sundog as ray


@ray.remote
class Translator:
    def __init__(self, language):
        time.sleep(0.06)  # the dictionary is loaded
        self.language = language

    def translate(self, text):
        time.sleep(0.005)
        return f"{self.language}: {text}"


def translate(text):
    translator = Translator.remote("fi")  # fault: actor-per-item
    return translator.translate.remote(text)


if __name__ == "__main__":
    ray.init(num_cpus=2)
    texts = [f"page {n}" for n in range(24)]
    done = []
    for first in range(0, len(texts), 4):
        done += ray.get([translate(text) for text in texts[first : first + 4]])
    print(len(done))
