"""Messages are signed one by one in the driver, with slow cryptography, then sent by tasks."""

import hashlib
import time

import sundog as ray

KEY = b"secret"


def sign(message):
    return hashlib.pbkdf2_hmac("sha256", message.encode(), KEY, 90_000).hex()


@ray.remote
def send(message, signature):
    time.sleep(0.02)
    return len(signature)


def main():
    ray.init(num_cpus=4)
    messages = (f"message {n}" for n in range(60))
    sent = {message: send.remote(message, sign(message)) for message in messages}  # fault: driver-bound
    print(sum(ray.get(list(sent.values()))))


if __name__ == "__main__":
    main()
