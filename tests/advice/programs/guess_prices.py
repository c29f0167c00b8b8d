"""Quotes for many hotels: a helper retries each quote on its own."""

import time

import sundog as ray


@ray.remote(max_retries=0)
def quote(hotel, attempt):
    time.sleep(0.25)
    if hotel % 3 == 1 and attempt < 2:
        raise TimeoutError(f"hotel {hotel} did not answer")
    return 100 + hotel


def collect(hotels):
    prices = {}
    pending = {quote.remote(hotel, 0): (hotel, 0) for hotel in hotels}
    while pending:
        [ref], _ = ray.wait(list(pending), num_returns=1)
        hotel, attempt = pending.pop(ref)
        try:
            prices[hotel] = ray.get(ref)
        except Exception as error:
            print(f"{hotel}: {type(error).__name__}, try {attempt + 2}")
            pending[quote.remote(hotel, attempt + 1)] = (hotel, attempt + 1)  # fault: retries
    return prices


if __name__ == "__main__":
    ray.init(num_cpus=4)
    print(len(collect(range(18))))
