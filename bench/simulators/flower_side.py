"""Flower's side: `python -m bench.simulators.flower_side FILE CLIENTS IMAGES PER_ROUND MODEL ROUNDS`.

It has Flower's own federated averaging and its simulation on Ray, with one actor of one processor. The processor time
is that of this process and of all processes of Ray.
"""

from __future__ import annotations

import sys

from flwr.app import ArrayRecord, ConfigRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg, Result
from flwr.simulation import run_simulation

from bench.simulators.flower_client import TASK, client, task_of
from bench.simulators.task import Rounds, asked, tell
from bench.simulators.torch_side import accuracy, prepared

ONE = {"client_resources": {"num_cpus": 1, "num_gpus": 0.0}, "init_args": {"num_cpus": 1, "include_dashboard": False}}


class Watched(FedAvg):
    """FedAvg that tells the clients their task, and notes the end of each round."""

    def __init__(self, watch: Rounds, task: ConfigRecord) -> None:
        count, nodes = watch.shape.per_round, watch.shape.clients
        super().__init__(
            fraction_train=count / nodes, fraction_evaluate=0.0, min_train_nodes=count, min_available_nodes=nodes
        )
        self._watch, self._task = watch, task

    def configure_train(self, server_round, arrays, config, grid):  # type: ignore[no-untyped-def]
        messages = list(super().configure_train(server_round, arrays, config, grid))
        for message in messages:
            message.content[TASK] = self._task
        return messages

    def aggregate_train(self, server_round, replies):  # type: ignore[no-untyped-def]
        found = super().aggregate_train(server_round, replies)
        self._watch.ended()
        return found


def main(arguments: list[str]) -> None:
    file, shape, name, rounds = asked(arguments)
    model, x, y = prepared(file, name)
    watch, server, results = Rounds(shape), ServerApp(), list[Result]()

    @server.main()
    def serve(grid: Grid, context: Context) -> None:
        strategy = Watched(watch, task_of(file, shape, name))
        results.append(strategy.start(grid, ArrayRecord(model.state_dict()), num_rounds=rounds))

    run_simulation(server, client, shape.clients, backend_config=ONE)
    model.load_state_dict(results[0].arrays.to_torch_state_dict())
    tell(watch.result(accuracy(model, shape, x, y)))


if __name__ == "__main__":
    main(sys.argv[1:])
