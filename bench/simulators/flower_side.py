"""Flower's side: `python -m bench.simulators.flower_side FILE CLIENTS IMAGES PER_ROUND MODEL ROUNDS SEED`.

It has Flower's own federated averaging and its simulation on Ray, with one actor of one processor. The processor time
is that of this process and of all processes of Ray.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

from flwr.app import ArrayRecord, ConfigRecord, Context, Message, RecordDict
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg, Result
from flwr.simulation import run_simulation

from bench.simulators.flower_client import TASK, client, task_of
from bench.simulators.task import Rounds, asked, drawn, tell
from bench.simulators.torch_side import accuracy, prepared

ONE = {"client_resources": {"num_cpus": 1, "num_gpus": 0.0}, "init_args": {"num_cpus": 1, "include_dashboard": False}}


class Watched(FedAvg):
    """FedAvg that tells each node as which client of the task it trains, and notes the end of each round."""

    def __init__(self, watch: Rounds, tasks: Iterable[list[ConfigRecord]]) -> None:
        count, nodes = watch.shape.per_round, watch.shape.clients
        super().__init__(
            fraction_train=count / nodes, fraction_evaluate=0.0, min_train_nodes=count, min_available_nodes=nodes
        )
        self._watch, self._tasks = watch, iter(tasks)

    def configure_train(self, server_round, arrays, config, grid):  # type: ignore[no-untyped-def]
        messages = super().configure_train(server_round, arrays, config, grid)
        return [_with_task(message, task) for message, task in zip(messages, next(self._tasks), strict=True)]

    def aggregate_train(self, server_round, replies):  # type: ignore[no-untyped-def]
        found = super().aggregate_train(server_round, replies)
        self._watch.ended()
        return found


def _with_task(message: Message, task: ConfigRecord) -> Message:
    content = RecordDict({**message.content, TASK: task})
    return Message(content, message.metadata.dst_node_id, message.metadata.message_type)


def main(arguments: list[str]) -> None:
    file, shape, name, rounds, seed = asked(arguments)
    model, x, y = prepared(file, name, seed)
    watch, server, results = Rounds(shape), ServerApp(), list[Result]()

    @server.main()
    def serve(grid: Grid, context: Context) -> None:
        given = asked(arguments)
        tasks = [[task_of(given, client) for client in clients] for clients in drawn(file)]
        strategy = Watched(watch, tasks)
        results.append(strategy.start(grid, ArrayRecord(model.state_dict()), num_rounds=rounds))

    run_simulation(server, client, shape.clients, backend_config=ONE)
    model.load_state_dict(results[0].arrays.to_torch_state_dict())
    tell(watch.result(accuracy(model, shape, x, y)))


if __name__ == "__main__":
    main(sys.argv[1:])
