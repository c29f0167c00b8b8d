"""Each password is hashed in a task of its own."""

import hashlib

import sundog as ray


@ray.remote
def digest(password, salt):
    return hashlib.pbkdf2_hmac("sha256", password.encode(), salt, 20).hex()


class Checker:
    def __init__(self, salt):
        self.salt = salt
        self.refs = []

    def add(self, password):
        self.refs.append(digest.remote(password, self.salt))  # fault: tasks-too-small

    def digests(self):
        return [ray.get(ref) for ref in self.refs]


ray.init()
checker = Checker(b"salt")
for number in range(40_000):
    checker.add(f"secret-{number}")
print(len(set(checker.digests())))
