"""Four actors, made once, are asked again and again."""

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


if __name__ == "__main__":
    ray.init(num_cpus=2)
    texts = [f"page {n}" for n in range(24)]
    translators = [Translator.remote("fi") for _ in range(4)]
    done = []
    for first in range(0, len(texts), 4):
        four = zip(translators, texts[first : first + 4])
        done += ray.get([translator.translate.remote(text) for translator, text in four])
    print(len(done))
