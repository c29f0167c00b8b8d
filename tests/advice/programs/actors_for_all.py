"""Every customer gets an actor, which is asked once."""

import sundog as ray


@ray.remote
class Forecast:
    def __init__(self, customer):
        self.history = [(customer * 31 + day) % 97 for day in range(365)]

    def next_week(self):
        level = 0.0
        for value in self.history:
            level = 0.8 * level + 0.2 * value
        return level


def main():
    ray.init()
    forecasts = {customer: Forecast.remote(customer) for customer in range(30)}  # fault: actor-per-item
    refs = {customer: forecast.next_week.remote() for customer, forecast in forecasts.items()}
    print(max(ray.get(list(refs.values()))))


if __name__ == "__main__":
    main()
