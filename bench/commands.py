"""The commands of `python -m bench` that have options of their own: the module of each, and what it does.

A module is imported when its command is called, because some need packages that no other command needs.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import NamedTuple


class BenchCommand(NamedTuple):
    """A command, whose module has a function `main` of its arguments that returns the exit status."""

    module: str
    sentence: str

    def run(self, arguments: Sequence[str]) -> int:
        status: int = importlib.import_module(f"bench.{self.module}").main(list(arguments))
        return status


COMMANDS = {
    "adapters": BenchCommand("adapters.command", "trains low-rank adapters, and takes steps within memory limits"),
    "arm": BenchCommand("arm.command", "counts instructions on 64-bit ARM"),
    "bfloat16": BenchCommand("bfloat16", "trains with products rounded to bfloat16"),
    "build": BenchCommand("build_cost", "prints what a build takes"),
    "builds": BenchCommand("builds", "times two builds of edgefl"),
    "calls": BenchCommand("calls", "times the calls of a step one by one"),
    "collection": BenchCommand("collection.command", "converts models that people bring, and checks them"),
    "converted": BenchCommand("converted", "times converted torch modules"),
    "cuda": BenchCommand("cuda", "times steps on a GPU"),
    "cuda-kernels": BenchCommand("cuda_kernels", "times the kernels of steps on a GPU"),
    "energy": BenchCommand("energy", "prints the joules of a step, where the machine tells them"),
    "fine-tuning": BenchCommand("fine_tuning.command", "trains parts of a pretrained network in a federation"),
    "flower": BenchCommand("deployment", "runs our methods in a deployment of Flower"),
    "flower-devices": BenchCommand("flower_devices", "runs devices without Flower in a deployment of Flower"),
    "frozen": BenchCommand("frozen", "trains the classifier of a frozen backbone"),
    "int8": BenchCommand("int8", "quantises models"),
    "int8-activations": BenchCommand("int8_activations.command", "evaluates models with int8 activations"),
    "language": BenchCommand("language.command", "trains a transformer of characters"),
    "latex": BenchCommand("latex", "compiles the tables of a run with LaTeX"),
    "page": BenchCommand("page", "prints what a page costs a server"),
    "papers": BenchCommand("papers.command", "runs the tables of papers again"),
    "peers": BenchCommand("trainers.command", "times a step of other trainers"),
    "pictures": BenchCommand("pictures", "draws pictures of runs"),
    "ray": BenchCommand("ray_rounds", "times rounds on a Ray cluster"),
    "secure": BenchCommand("secure.command", "tries secure aggregation"),
    "segmentation": BenchCommand("segmentation.command", "trains a U-Net on pictures"),
    "simulators": BenchCommand("simulators.command", "times simulations beside those of other programs"),
    "sparse": BenchCommand("sparse.command", "times masked layers"),
    "throughputs": BenchCommand("throughputs", "serves devices of unlike speed"),
    "trained-part": BenchCommand("trained_part", "trains parts of MobileNetV2"),
    "waiting": BenchCommand("waiting", "lets devices of unlike speed wait for each other, or not"),
}


def listed() -> str:
    """Return a line for each command."""
    width = max(map(len, COMMANDS))
    return "\n".join(f"  {name:{width}}  {command.sentence}" for name, command in COMMANDS.items())
