"""A small network is trained in every worker; each asks torch for eight threads."""

# needs: torch
import torch

import sundog as ray


@ray.remote
def train(seed):
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    net = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10))
    opt = torch.optim.SGD(net.parameters(), lr=0.01)
    X, y = torch.randn(1024, 256), torch.randint(0, 10, (1024,))
    for _ in range(25):
        opt.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(X), y)
        loss.backward()
        opt.step()
    return float(loss)


if __name__ == "__main__":
    ray.init()
    print(min(ray.get([train.remote(seed) for seed in range(12)])))
