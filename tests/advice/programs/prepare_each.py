"""The driver makes a prompt for each row, then sends it to a task."""

import time

import sundog as ray

ROWS = [{"id": n, "text": "lorem ipsum " * 20} for n in range(50)]


def template(row):
    time.sleep(0.05)
    return f"Summarise #{row['id']}: {row['text'].upper()}"


@ray.remote
def complete(prompt):
    time.sleep(0.02)
    return len(prompt)


def main():
    ray.init(num_cpus=4)
    refs = []
    for row in ROWS:
        prompt = template(row)  # fault: driver-bound
        refs.append(complete.remote(prompt))
    answers = ray.get(refs)
    print(f"{sum(answers)} characters")


if __name__ == "__main__":
    main()
