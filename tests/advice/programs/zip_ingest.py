"""Ingest files with their schemas, and keep the row counts by name."""

import time

import sundog as ray

PATHS = [f"s3://bucket/day={day}.parquet" for day in range(1, 13)]
SCHEMAS = [{"columns": 8 + day % 3, "strict": day % 2 == 0} for day in range(1, 13)]


@ray.remote(num_cpus=1)
def ingest(path, schema, *, limit=None):
    time.sleep(0.2)
    return {"path": path, "rows": 1000 * schema["columns"], "limit": limit}


def main():
    ray.init(num_cpus=4)
    rows, failed = {}, []
    for number, (path, schema) in enumerate(zip(PATHS, SCHEMAS), start=1):
        try:
            found = ray.get(ingest.remote(path, schema, limit=100), timeout=30)  # fault: get-in-loop
            rows[path] = found["rows"]
        except ray.exceptions.GetTimeoutError:
            failed.append(path)
        print(f"[{number:2d}/{len(PATHS)}] {path}: {rows.get(path, 0):,} rows")
    print(sum(rows.values()), failed)


if __name__ == "__main__":
    main()
