"""A function for each row of a table."""

import re

# needs: pandas
import pandas as pd

import sundog as ray


@ray.remote
def clean_all(rows):
    return [clean(row) for row in rows]


def clean(row):
    text = re.sub(r"[^a-z ]", "", row["text"].lower())
    words = [w for w in text.split() if len(w) > 2]
    return {"id": row["id"], "n": len(words), "longest": max(words, key=len, default="")}


def main():
    ray.init()
    frame = pd.DataFrame({"id": range(12_000), "text": ["Some Text, with 3 words and More!" * 3] * 12_000})
    rows = frame.to_dict("records")
    refs = [clean_all.remote(rows[i : i + 500]) for i in range(0, len(rows), 500)]
    cleaned = pd.DataFrame([row for part in ray.get(refs) for row in part])
    print(cleaned["n"].sum())


if __name__ == "__main__":
    main()
