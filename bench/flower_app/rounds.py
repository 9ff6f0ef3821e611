"""The Flower app that bench/flower.py runs: FedAvg over a small float32 array. Training adds one to the array.

It runs under Flower's own Python, not under ours. The time at which a round begins goes to a file.
"""

from __future__ import annotations

import time

import numpy as np
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

client = ClientApp()
server = ServerApp()


@client.train()
def train(message: Message, context: Context) -> Message:
    arrays = [array + np.float32(1) for array in message.content["arrays"].to_numpy_ndarrays()]
    reply = {"arrays": ArrayRecord(arrays), "metrics": MetricRecord({"num-examples": 1})}
    return Message(content=RecordDict(reply), reply_to=message)


class Timed(FedAvg):
    """FedAvg that notes when a round begins."""

    def __init__(self, times: str, clients: int) -> None:
        super().__init__(fraction_evaluate=0.0, min_train_nodes=clients, min_available_nodes=clients)
        self._times = times

    def configure_train(self, *arguments, **options):
        with open(self._times, "a", encoding="utf-8") as file:
            print(time.perf_counter(), file=file)
        return super().configure_train(*arguments, **options)


@server.main()
def main(grid: Grid, context: Context) -> None:
    config = context.run_config
    strategy = Timed(config["times"], config["clients"])
    arrays = ArrayRecord([np.zeros(config["parameters"], np.float32)])
    strategy.start(grid, arrays, num_rounds=config["rounds"])
