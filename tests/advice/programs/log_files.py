"""Log files are searched, one task for each; the newest file is by far the largest."""

import re

import sundog as ray

PATTERN = re.compile(r"user=(\d+) .*status=5\d\d")


@ray.remote
def errors(lines):
    found = {}
    for number in range(lines):
        line = f"{number} user={number % 97} path=/a/b/c took={number % 13} status={200 + number % 307}"
        hit = PATTERN.search(line)
        if hit:
            found[hit[1]] = found.get(hit[1], 0) + 1
    return found


ray.init()
files = {f"app-{n}.log": 15_000 for n in range(15)}
files["app-now.log"] = 260_000
pending = []
for _name, lines in files.items():
    pending.append(errors.remote(lines))  # fault: stragglers
total = {}
while pending:
    ready, pending = ray.wait(pending)
    for user, count in ray.get(ready[0]).items():
        total[user] = total.get(user, 0) + count
print(len(total))
