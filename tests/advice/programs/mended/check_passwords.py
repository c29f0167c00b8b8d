"""Passwords are hashed five hundred to a task."""

import hashlib

import sundog as ray


@ray.remote
def digests(passwords, salt):
    return [hashlib.pbkdf2_hmac("sha256", each.encode(), salt, 20).hex() for each in passwords]


class Checker:
    def __init__(self, salt):
        self.salt = salt
        self.refs = []

    def add(self, passwords):
        self.refs.append(digests.remote(passwords, self.salt))

    def digests(self):
        return [each for part in ray.get(self.refs) for each in part]


ray.init()
checker = Checker(b"salt")
for first in range(0, 40_000, 500):
    checker.add([f"secret-{number}" for number in range(first, first + 500)])
print(len(set(checker.digests())))
