"""A function for each row of a table."""

import re

# needs: pandas
import pandas as pd

import sundog as ray


@ray.remote
def clean(row):
    text = re.sub(r"[^a-z ]", "", row["text"].lower())
    words = [w for w in text.split() if len(w) > 2]
    return {"id": row["id"], "n": len(words), "longest": max(words, key=len, default="")}


def main():
    ray.init()
    frame = pd.DataFrame({"id": range(12_000), "text": ["Some Text, with 3 words and More!" * 3] * 12_000})
    refs = [clean.remote(row) for row in frame.to_dict("records")]  # fault: tasks-too-small
    cleaned = pd.DataFrame(ray.get(refs))
    print(cleaned["n"].sum())


if __name__ == "__main__":
    main()
