"""The program parses everything itself before it hands out the work."""

import json

import sundog as ray


@ray.remote
def analyse(records):
    return sum(len(json.dumps(sorted(record.items()))) for record in records)


def parse(lines):
    out = []
    for line in lines:
        record = json.loads(line)
        record["tokens"] = [word.strip(",.").lower() for word in record["text"].split()]
        out.append(record)
    return out


def main():
    ray.init()
    lines = [json.dumps({"id": i, "text": "the quick, brown fox. " * 25}) for i in range(40_000)]
    records = parse(lines)  # fault: serial-part
    chunks = [records[i : i + 1000] for i in range(0, 20_000, 1000)]
    print(sum(ray.get([analyse.remote([{"id": r["id"]} for r in chunk]) for chunk in chunks])))


if __name__ == "__main__":
    main()
