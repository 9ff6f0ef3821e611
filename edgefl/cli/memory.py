"""`edgefl memory` shows the memory of training a model, by labelled accounts and meters, or the training that fits a
limit.

edgefl.learning.memory has the accounts, and edgefl.study.memory_meter has the meters. This file chooses what they
are asked for.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from edgefl import kernels
from edgefl.cli import memory_options, memory_plan
from edgefl.cli.memory_methods import resolve
from edgefl.cli.memory_picture import draw
from edgefl.cli.memory_table import NOTES, OUTSIDE, FootprintRow, print_board, print_fit, print_rows, print_tensors
from edgefl.cli.working import working
from edgefl.errors import DataError, GraphError, MemoryLimitError, RequestError, expected_name
from edgefl.learning import SGD, Adam
from edgefl.learning.losses import CROSS_ENTROPY, Loss
from edgefl.learning.lowering.updates import Terms
from edgefl.learning.memory import (
    BatchSizeFit,
    Footprint,
    TrainingConfiguration,
    best,
    estimate,
    fit,
)
from edgefl.learning.memory.board_specs import BoardVariant, choose
from edgefl.learning.memory.training_setup import PARTIAL, Method
from edgefl.models.graph import Graph, model_files
from edgefl.models.graph.architectures import EXAMPLES, build
from edgefl.models.graph.cuts import after
from edgefl.models.neurons.trained_part import with_trained
from edgefl.study.memory_meter import METERS, NATIVE, measure
from edgefl.study.picture import check_picture

KEEPS = (0.2, 0.4, 0.6, 0.8, 1.0)
ARM_INSTRUCTION_SETS = ("neon",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of memory_options.py."""
    memory_options.add_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Check the request, then answer it. For a board the facts of the board replace the facts of this machine."""
    try:
        if options.board is None:
            return _answer(options)
        board = choose(options.board)
        if options.measure or options.plot is not None:
            raise ValueError(f"--board {options.board} with --measure or --plot; expected neither: no board is here")
        with as_on(board):
            print_board(board, options.json)
            options.fit = options.fit or board.left_bytes
            return _answer(options)
    except ValueError as error:
        raise RequestError(str(error)) from error


@contextmanager
def as_on(board: BoardVariant) -> Iterator[None]:
    """Count the kernels' packing memory as on the board for the length of the with block.

    The number of cores is the board's. Its kernels have vectors of four floats, which another kind of machine has
    with its scalar instructions.
    """
    ops = kernels.backend()
    if ops.__name__.rpartition(".")[2] != "native":
        yield
        return
    threads, isa = ops.threads(), ops.isa()
    ops.set_threads(board.board.cores.number)
    if isa not in ARM_INSTRUCTION_SETS:
        ops.cap_isa("scalar")
    try:
        yield
    finally:
        ops.set_threads(threads)
        ops.cap_isa(isa)


def _answer(options: argparse.Namespace) -> int:
    try:
        said = resolve(options)
        training = _training(options)
        if said and not options.json:
            print(said)
        if options.plan:
            usual = KEEPS if options.fit is not None and training.method in PARTIAL else (1.0,)
            return memory_plan.answer(training, options.density or options.keep or usual, options)
        keeps = options.density or options.keep or (KEEPS if training.method in PARTIAL else (1.0,))
        if options.fit is not None:
            if options.plot is not None:
                raise ValueError(f"--plot {options.plot} with --fit; expected one of them")
            with working("finding the largest training that fits"):
                found = fit(training, options.fit, keeps)
            return _fit(training, found, options)
        if options.plot is not None:
            check_picture(options.plot)
        if options.tensors and "exact" not in options.account:
            raise ValueError(f"--tensors with --account {','.join(options.account)}; expected exact among them")
        rows = _rows(training, keeps, options)
    except (ValueError, DataError) as error:
        raise RequestError(str(error)) from error
    _show(training, rows, options)
    return 0


def _training(options: argparse.Namespace) -> TrainingConfiguration:
    graph, name = _graph(options)
    graph = with_trained(graph, options.train)
    method: Method = options.method or ("sparse" if options.density else "fedspu")
    if options.density and method != "sparse":
        raise ValueError(f"--density with --method {method}; expected sparse")
    if options.density and options.keep:
        raise ValueError("--density with --keep; expected one of them")
    for setting, value in (("saved", options.saved), ("micro-batch", options.micro_batch)):
        if value not in ("fp32", 0) and method == "pflego":
            expected = "expected another, whose steps have this setting"
            raise ValueError(f"--{setting} {value} with --method pflego; {expected}")
    terms, loss = _terms(options), Loss.parse(options.loss)
    loss.check_outputs(loss.split(graph.output_shape)[0])
    if options.measure and not (terms.is_plain and loss == CROSS_ENTROPY):
        raise ValueError(f"--measure with {options.optimizer} and {loss}; expected plain sgd and cross-entropy")
    if options.cut:
        if options.measure:
            raise ValueError(f"--measure with --cut {options.cut}; expected one of them")
        options.account = ("exact",)
        after(graph, options.cut)
    known = {"examples": options.examples, "terms": terms, "loss": loss, "cut": options.cut}
    return TrainingConfiguration(name, graph, options.batch, method, **known)


def _terms(options: argparse.Namespace) -> Terms:
    """Return the terms that the step has in addition to plain SGD.

    Raises  ValueError for a momentum that the optimizer does not have
    """
    if options.momentum and options.optimizer != "sgd":
        raise ValueError(f"--momentum {options.momentum} with --optimizer {options.optimizer}; expected sgd")
    if options.optimizer == "sgd":
        return Terms.of(SGD(1.0, options.momentum, saved=options.saved, micro_batch=options.micro_batch))
    return Terms.of(Adam(1.0, saved=options.saved, micro_batch=options.micro_batch))


def _graph(options: argparse.Namespace) -> tuple[Graph, str]:
    """Return the model that was asked for, and its name. Raises ValueError if it is neither a built-in model nor a
    file.
    """
    if options.classes is not None and options.classes < 1:
        raise ValueError(f"--classes {options.classes}; expected at least 1")
    if options.model in EXAMPLES:
        shape, classes = EXAMPLES[options.model]
        return build(options.model, options.input or shape, options.classes or classes), options.model
    if not options.model.endswith(".safetensors"):
        raise ValueError(f"model {options.model!r}; {expected_name(options.model, EXAMPLES, 'a .safetensors file')}")
    if options.input or options.classes:
        raise ValueError(f"--input and --classes with {options.model}; expected neither, for the file has its shapes")
    try:
        return model_files.load(options.model).graph, Path(options.model).stem
    except (GraphError, OSError) as error:
        raise ValueError(str(error)) from error


def _rows(training: TrainingConfiguration, keeps: Sequence[float], options: argparse.Namespace) -> list[FootprintRow]:
    """Return a row for full training, with which the others are compared, then a row of the method for each share."""
    accounts = list(options.account)
    if options.measure and "bound" not in accounts:
        accounts.append("bound")  # a measurement is always shown with the theory
    full = replace(training, method="full", cut="")
    ways = [full] if training.method == "full" else [full, *(replace(training, keep=keep) for keep in keeps)]
    rows = []
    with working("measuring" if options.measure else "counting", len(ways)) as at:
        for way in ways:
            rows.append(_row(way, accounts, options.measure))
            at(len(rows))
    return rows


def _row(training: TrainingConfiguration, accounts: Sequence[str], measured: bool) -> FootprintRow:
    found = [estimate(account, training) for account in accounts]
    if measured:
        found += measure(training, _meters(training))
    return FootprintRow(training.method, training.keep, {each.account: each for each in found})


def _meters(training: TrainingConfiguration) -> tuple[str, ...]:
    """Return the names of the meters. torch is measured only where it is installed and only for full training, because
    masks do not change what torch saves.
    """
    with_torch = training.method == "full" and importlib.util.find_spec("torch") is not None
    return METERS if with_torch else NATIVE


def _show(training: TrainingConfiguration, rows: Sequence[FootprintRow], options: argparse.Namespace) -> None:
    if options.json:
        found = [each.to_json() for row in rows for each in row.footprints.values()]
        notes = {name: NOTES[name] for name in rows[0].footprints}
        print(json.dumps({**_about(training), "accounts": notes, "footprints": found}))
    else:
        print_rows(training, rows)
        if options.tensors:
            print_tensors(rows)
    if options.plot is not None:
        draw(options.plot, training, rows)  # last, so that the tables are printed also where it fails


def _fit(training: TrainingConfiguration, choices: Sequence[BatchSizeFit], options: argparse.Namespace) -> int:
    chosen = best(choices, training.batch)
    if chosen is None:
        least = min((choice.footprint for choice in choices), key=lambda footprint: footprint.total)
        smallest = f"one example at p={least.keep:g} takes {least.total}"
        raise MemoryLimitError(f"nothing fits {options.fit} bytes: by the account exact, {smallest}")
    measured: list[Footprint] = []
    if options.measure:
        with working("measuring the training that was found"):
            measured = measure(replace(training, batch=chosen.batch, keep=chosen.keep), NATIVE, options.fit)
    if options.json:
        choice = {"keep": chosen.keep, "batch": chosen.batch, "footprint": chosen.footprint.to_json()}
        table = [{"keep": keep, "batch": batch, "total": found.total} for keep, batch, found in choices]
        found = {"limit_bytes": options.fit, "account": "exact", "outside": OUTSIDE, "chosen": choice, "choices": table}
        print(json.dumps({**_about(training), **found, "measured": [each.to_json() for each in measured]}))
    else:
        print_fit(training, options.fit, chosen, choices, measured)
    return 0


def _about(training: TrainingConfiguration) -> dict[str, object]:
    graph = training.graph
    shapes = {"input_shape": list(graph.input_shape), "classes": graph.output_shape[0]}
    return {"model": training.model, "method": training.method, "batch": training.batch, **shapes}
