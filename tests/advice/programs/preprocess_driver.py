"""The program cleans each record itself before it sends it out."""

import time

import sundog as ray


def clean(record):
    return "".join(sorted(c for c in record * 20_000 if c.isalnum()))


@ray.remote
def fit(text):
    time.sleep(0.003)
    return len(text)


if __name__ == "__main__":
    ray.init()
    records = [f"Record #{n}: some text, with commas" * 2 for n in range(20)]
    refs = []
    for record in records:
        text = clean(record)  # fault: serial-part
        refs.append(fit.remote(text))
    print(sum(ray.get(refs)))
