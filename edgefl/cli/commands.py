"""The commands, a line about each command, and the parser of its options. cli.py runs a command.

Only the chosen command's module is imported, so that a device loads nothing that it does not use.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from edgefl.cli.command_help import HELP
from edgefl.cli.option_parser import OptionParser
from edgefl.cli.output_options import add_output

COMMANDS = {  # name, which is also the name of its module in edgefl/cli/ -> what it does
    "simulate": "run federated methods without a network",
    "methods": "list the methods, or the settings of one method",
    "check": "describe data of your own: classes, groups, units, the training to come, and warnings",
    "demo": "train a federation of real processes on this machine and show what federation gains",
    "serve": "run the server of one method, for devices to connect to",
    "report": "write one HTML file that compares runs: curves, tables, clients, costs, settings",
    "status": "show the progress of a served run",
    "devices": "show every device of a served run: connection, activity, rounds",
    "control": "pause, stop or change a served run, and remove clients",
    "page": "show a served run in a browser, during the run or after it",
    "client": "take part in a run as one device",
    "agent": "keep a device in service: the device joins one run after another while its conditions hold",
    "partition": "write the samples of every client into a file of its own",
    "keys": "make the keys of devices, certificates, and identities for secure aggregation",
    "convert": "write a torch module of your own or an ONNX model, with its weights, into a file for --model",
    "lora": "add low-rank adapters to a model, merge them, or exchange them with the package peft",
    "export": "write the trained model of a run, or of a device, into a file",
    "predict": "compute the outputs of a model for inputs",
    "inspect": "describe a model file: operations, neurons, memory and time of a training step",
    "memory": "show how much memory training takes, or the largest training that fits",
    "bench": "compare the speed of your torch model in edgefl and in torch, also with frozen neurons",
    "doctor": "show backend, instruction set, threads, versions and data directories",
    "completion": "print a script that completes commands and options in bash, zsh or fish",
}
LOGGED = ("serve", "page", "client", "agent")  # commands whose lines have a time and a level


def parser_of(command: str, make: Callable[..., Any] = OptionParser, **more: Any) -> OptionParser:
    """Return the parser of a command's options.

    make  makes the parser from `more`, as OptionParser does; argparse's `add_parser` makes a part of another parser
    """
    what = COMMANDS[command]
    description = f"{what[0].upper()}{what[1:]}."
    parser: OptionParser = make(description=description, **HELP[command]._asdict(), **more)
    importlib.import_module(f"edgefl.cli.{command}").add_arguments(parser)
    add_output(parser, command, command in LOGGED)
    return parser
