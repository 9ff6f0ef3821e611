"""A client of Flower's simulation: the module that Ray's actors import. An actor loads the images once."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from bench.simulators.task import Shape
from bench.simulators.torch_side import prepared, train

TASK, ARRAYS = "task", "arrays"
prepared_once = cache(prepared)
client = ClientApp()


def task_of(file: Path, shape: Shape, model: str, client: int) -> ConfigRecord:
    """Return the task as a node is told it that trains as this client."""
    sizes = [shape.clients, shape.images, shape.per_round]
    return ConfigRecord({"file": str(file), "shape": sizes, "model": model, "client": client})


@client.train()
def train_client(message: Message, context: Context) -> Message:
    """Take one epoch over the samples of the client that the task names, and return the whole model."""
    given = message.content[TASK]
    shape = Shape(*given["shape"])
    model, x, y = prepared_once(Path(given["file"]), given["model"])
    model.load_state_dict(message.content[ARRAYS].to_torch_state_dict())
    own = shape.trained(int(given["client"]))
    train(model, x[own], y[own])
    metrics = MetricRecord({"num-examples": len(y[own])})
    return Message(content=RecordDict({ARRAYS: ArrayRecord(model.state_dict()), "metrics": metrics}), reply_to=message)
