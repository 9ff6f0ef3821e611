"""Flower's own simulation, for `python -m bench ray --flower PYTHON`: CLIENTS WORKERS MS ROUNDS.

It runs under a Python with flwr[simulation] and torch, without edgefl. Every client does SGD steps of the digits' CNN
in torch, on noise of the digits' shape, until MS of a thread's time have passed, and returns the whole model: FedAvg.
The program prints the median of the seconds of a round, without the first round, in which Ray's actors start.
"""

from __future__ import annotations

import sys
import time
from itertools import pairwise

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation

CLIENTS, WORKERS, MS, ROUNDS = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])
BATCH = 16
STARTS: list[float] = []


def module() -> torch.nn.Module:
    """Build the built-in digits_cnn."""
    nn = torch.nn
    blocks = [(1, 32), (32, 64)]
    layers = [[nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU(), nn.MaxPool2d(2)] for i, o in blocks]
    return nn.Sequential(*(layer for block in layers for layer in block), nn.Flatten(), nn.Linear(256, 10))


client = ClientApp()


@client.train()
def train(message: Message, context: Context) -> Message:
    """Take steps for MS milliseconds, and say how long they took."""
    torch.set_num_threads(1)
    started, cpu_s = time.perf_counter(), time.thread_time()
    model = module()
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    optimiser = torch.optim.SGD(model.parameters(), lr=0.05)
    x, y = torch.rand(BATCH, 1, 8, 8), torch.randint(10, (BATCH,))
    while 1e3 * (time.thread_time() - cpu_s) < MS:
        optimiser.zero_grad(set_to_none=True)
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimiser.step()
    metrics = MetricRecord({"num-examples": 1, "seconds": time.perf_counter() - started})
    reply = {"arrays": ArrayRecord(model.state_dict()), "metrics": metrics}
    return Message(content=RecordDict(reply), reply_to=message)


class Timed(FedAvg):
    """FedAvg that notes when a round begins."""

    def configure_train(self, *arguments, **options):
        STARTS.append(time.perf_counter())
        return super().configure_train(*arguments, **options)


server = ServerApp()


@server.main()
def main(grid: Grid, context: Context) -> None:
    """Run one round more than are timed, because its beginning ends the last timed round."""
    strategy = Timed(fraction_evaluate=0.0, min_train_nodes=CLIENTS, min_available_nodes=CLIENTS)
    result = strategy.start(grid, ArrayRecord(module().state_dict()), num_rounds=ROUNDS + 2)
    found = [1e3 * metrics["seconds"] for metrics in result.train_metrics_clientapp.values()]
    seconds = sorted(after - before for before, after in pairwise(STARTS[1:]))
    middle = seconds[len(seconds) // 2]
    print(f"flower   {middle:9.2f} s a round, {1e3 * middle * WORKERS / CLIENTS:7.1f} ms a client, of which", end=" ")
    print(f"{found[-1]:.1f} ms train")


if __name__ == "__main__":
    resources = {"client_resources": {"num_cpus": 1, "num_gpus": 0}, "init_args": {"num_cpus": WORKERS}}
    run_simulation(server, client, CLIENTS, backend_config=resources)
