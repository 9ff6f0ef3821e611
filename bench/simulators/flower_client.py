"""A client of Flower's simulation: the module that Ray's actors import. An actor loads the images once."""

from __future__ import annotations

from functools import cache

from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from bench.simulators.task import Asked, asked
from bench.simulators.torch_side import prepared, train

TASK, ARRAYS = "task", "arrays"
prepared_once = cache(prepared)
client = ClientApp()


def task_of(given: Asked, client: int) -> ConfigRecord:
    """Return the task as a node is told it that trains as this client."""
    return ConfigRecord({"given": given.arguments(), "client": client})


@client.train()
def train_client(message: Message, context: Context) -> Message:
    """Take one epoch over the samples of the client that the task names, and return the whole model."""
    task = message.content[TASK]
    file, shape, name, _, seed = asked(task["given"])
    model, x, y = prepared_once(file, name, seed)
    model.load_state_dict(message.content[ARRAYS].to_torch_state_dict())
    own = shape.trained(int(task["client"]))
    train(model, x[own], y[own])
    metrics = MetricRecord({"num-examples": len(y[own])})
    return Message(content=RecordDict({ARRAYS: ArrayRecord(model.state_dict()), "metrics": metrics}), reply_to=message)
