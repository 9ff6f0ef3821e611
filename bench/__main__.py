"""python -m bench WHAT: figures of this machine, beside PyTorch's, and beside Flower's for rounds.

The following commands have options of their own. `python -m bench papers` runs the tables of papers again. `python -m
bench peers` times a step of other trainers. `python -m bench sparse` times masked layers. `python -m bench builds`
times two builds of edgefl. `python -m bench build` prints what a build takes. `python -m bench calls` times the calls
of a step one by one. `python -m bench int8` quantises models, and `python -m bench int8-activations` evaluates models
with int8 activations. `python -m bench arm` counts instructions on 64-bit ARM. `python -m bench ray` times rounds on a
Ray cluster. `python -m bench flower` runs our methods in a deployment of Flower. `python -m bench flower-devices` runs
devices without Flower in such a deployment. `python -m bench converted` times converted torch modules. `python -m bench
energy` prints the joules of a step, where the machine tells them. `python -m bench throughputs` serves devices of
unlike speed, and `python -m bench waiting` lets such devices wait for each other, or not. `python -m bench latex`
compiles the tables of a run with LaTeX. `python -m bench page` prints what a page costs a server. `python -m bench
frozen` trains the classifier of a frozen backbone. `python -m bench cuda` times steps on a GPU, and `python -m bench
cuda-kernels` times their kernels. `python -m bench pictures` draws pictures of runs. `python -m bench trained-part`
trains parts of MobileNetV2. `python -m bench collection` converts models that people bring, and checks them. `python -m
bench language` trains a transformer of characters. `python -m bench segmentation` trains a U-Net on pictures. `python
-m bench fine-tuning` trains parts of a pretrained network in a federation. `python -m bench secure` tries secure
aggregation. `python -m bench adapters` trains low-rank adapters, and takes steps within memory limits. `python -m bench
bfloat16` trains with products rounded to bfloat16."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from itertools import chain
from pathlib import Path

from bench import (
    bfloat16,
    build_cost,
    builds,
    calls,
    caps,
    codec,
    codec_masks,
    converted,
    cuda,
    cuda_kernels,
    cuts,
    deployment,
    energy,
    federation,
    figures,
    flower,
    flower_devices,
    heads,
    history,
    kernels,
    machine,
    masked,
    memory,
    operations,
    page,
    peak,
    ray_rounds,
    rounds,
    step,
    throughputs,
    verdict,
    waiting,
)
from bench.arm import command as arm
from bench.papers import command as papers
from bench.rows import Row, print_json, print_table
from bench.runner import PRODUCTS, QUICK, QUICK_STEPS, STEPS, Effort
from bench.sparse import command as sparse
from bench.trainers import command as trainers

WHATS = ("step", "kernels", "operations", "peak", "memory", "codec", "federation", "heads", "rounds", "masked")
WHATS += ("history", "papers", "cuts")
MOVED = ("faults", "fuzz", "mutants", "vopr")  # to the tests. A version later these words are unknown
BUSY = 0.5  # load per core before the measurement


def main(arguments: list[str] | None = None) -> int:
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments and arguments[0] in MOVED:
        print(f"python -m bench {arguments[0]} has moved; run python -m tests {arguments[0]}", file=sys.stderr)
        return 2
    apart = {
        "adapters": lambda rest: importlib.import_module("bench.adapters.command").main(rest),  # it may need peft
        "arm": arm.main,
        "bfloat16": bfloat16.main,
        "build": build_cost.main,
        "builds": builds.main,
        "calls": calls.main,
        "collection": lambda rest: importlib.import_module("bench.collection.command").main(
            rest
        ),  # it is torch's alone
        "converted": converted.main,
        "cuda": cuda.main,
        "cuda-kernels": cuda_kernels.main,
        "energy": energy.main,
        "fine-tuning": lambda rest: importlib.import_module("bench.fine_tuning.command").main(rest),  # it needs torch
        "flower": deployment.main,
        "flower-devices": flower_devices.main,
        "int8-activations": lambda rest: importlib.import_module("bench.int8_activations.command").main(rest),
        "frozen": lambda rest: importlib.import_module("bench.frozen").main(rest),  # it makes its model with torch
        "language": lambda rest: importlib.import_module("bench.language.command").main(rest),  # it needs the roles
        "secure": lambda rest: importlib.import_module("bench.secure.command").main(rest),  # it needs cryptography
        "segmentation": lambda rest: importlib.import_module("bench.segmentation.command").main(rest),
        "latex": lambda rest: importlib.import_module("bench.latex").main(rest),  # no other bench needs a run's tables
        "throughputs": throughputs.main,
        "waiting": waiting.main,
        "trained-part": lambda rest: importlib.import_module("bench.trained_part").main(rest),  # it needs torch
        "page": page.main,
        "papers": papers.main,
        "peers": trainers.main,
        "pictures": lambda rest: importlib.import_module("bench.pictures").main(rest),  # it needs matplotlib
        "ray": ray_rounds.main,
        "simulators": lambda rest: importlib.import_module("bench.simulators.command").main(rest),
        "sparse": sparse.main,
    }
    if arguments and arguments[0] == "int8":  # its packages are the tests', and no other bench needs them
        return importlib.import_module("bench.int8").main(arguments[1:])
    if arguments and arguments[0] in apart:
        return apart[arguments[0]](arguments[1:])
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.record is not None and options.what != "step":
        parser.error(f"--record with {options.what}; expected it with step only")
    if options.isa:
        caps.start_anew(options.isa, arguments)
    if options.what == "history":
        history.draw(options.plot, history.read(history.FILE))
        return 0
    effort = _effort(options)
    facts = machine.facts()
    if float(facts["load"]) > BUSY * int(facts["cores"]):
        print(f"load {facts['load']:.1f} on {facts['cores']} cores: wall times will say little", file=sys.stderr)
    plain = {
        "peak": lambda: peak.measure(options.threads, effort),
        "memory": memory.rows,
        "codec": lambda: chain(codec.measure(effort), codec_masks.measure(effort)),
    }
    if options.what in plain:
        for row in plain[options.what]():
            print(json.dumps(row))
        return 0
    if options.what in ("rounds", "federation", "heads", "masked", "cuts"):
        (figures.print_json if options.json else figures.print_table)(facts, _figures(options))
        return 0
    if options.what == "operations":
        measured = operations.measure(effort, options.only, options.compiled)
        (print_json if options.json else print_table)(facts, measured)
        return 0
    measure = step.measure if options.what == "step" else kernels.measure
    cases = [case._replace(batches=options.batches or case.batches) for case in options.models]
    rows = measure(cases, options.threads, effort)
    if options.record is not None:
        rows = history.recording(options.record, facts, rows)
    shown: list[Row] = []
    show = print_json if options.json else print_table
    show(facts, _kept(rows, shown))
    if options.what == "kernels":
        _print_verdicts(shown, options.json)
    else:
        _print_cuts(options, facts, effort)
    return 0


def _kept(rows: Iterable[Row], shown: list[Row]) -> Iterator[Row]:
    for row in rows:
        shown.append(row)
        yield row


def _print_verdicts(rows: Sequence[Row], as_json: bool) -> None:
    for each in verdict.verdicts(rows):
        print(json.dumps({"verdict": asdict(each), "is_met": each.is_met}) if as_json else each)


def _print_cuts(options: argparse.Namespace, facts: machine.Facts, effort: Effort) -> None:
    """Measure and print what a weak client saves beyond its step, behind a cut."""
    found = cuts.measure(options.models, effort)
    if not options.json:
        figures.print_table(facts, found)
        return
    for each in found:
        print(json.dumps({"cut": asdict(each)}))


def _effort(options: argparse.Namespace) -> Effort:
    if options.what in ("step", "masked"):
        return QUICK_STEPS if options.quick else STEPS
    return QUICK if options.quick else PRODUCTS


def _masked(options: argparse.Namespace) -> Sequence[str]:
    """Return the chosen models that have a target at a mask, or the models of the papers on masks without any."""
    return [case.model for case in options.models if case.model in masked.MODELS] or masked.MODELS


def _figures(options: argparse.Namespace) -> Iterator[figures.Figure]:
    if options.what == "federation":
        return federation.measure(federation.QUICK if options.quick else federation.FULL)
    if options.what == "heads":
        return heads.measure(heads.QUICK if options.quick else heads.FULL)
    if options.what == "cuts":
        return cuts.measure(options.models, QUICK_STEPS if options.quick else STEPS)
    if options.what == "masked":
        batches = options.batches or (16,)
        parts = (masked.measure(_masked(options), batch, options.threads, _effort(options)) for batch in batches)
        return chain.from_iterable(parts)
    how_much = rounds.QUICK if options.quick else rounds.FULL
    return rounds.measure(options.parts or rounds.PARTS, how_much, options.dir, options.flower)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("what", choices=WHATS)
    parser.add_argument("--models", type=step.named, default=step.PAPER, help="names separated by commas, or all")
    parser.add_argument("--batches", type=_counts, help="batch sizes, separated by commas, in place of the models' own")
    parser.add_argument("--threads", type=_counts, default=(1, 2), help="numbers of threads, separated by commas")
    parser.add_argument("--json", action="store_true", help="JSON lines: machine facts first, then a line per row")
    parser.add_argument("--isa", choices=tuple(caps.CAPS), help="both sides are capped at this instruction set")
    parser.add_argument("--quick", action="store_true", help="few short turns: shows that it runs, not how fast")
    parser.add_argument(
        "--record",
        nargs="?",
        type=Path,
        const=history.FILE,
        metavar="FILE",
        help="append the rows of step to a history",
    )
    parser.add_argument(
        "--plot", type=_picture, default=history.PICTURE, metavar="FILE", help="of history: its picture"
    )
    single = parser.add_argument_group("operations")
    single.add_argument(
        "--only", type=operations.titled, help="titles of operations, separated by commas; default: all"
    )
    single.add_argument("--compiled", action="store_true", help="time torch.compile of each operation, too")
    served = parser.add_argument_group("rounds")
    served.add_argument("--parts", type=_parts, help=f"of {', '.join(rounds.PARTS)}, separated by commas; default: all")
    served.add_argument("--dir", type=Path, metavar="DIR", help="where runs and devices keep their files meanwhile")
    served.add_argument("--flower", type=Path, metavar="PYTHON", help=f"Flower beside us; to make one: {flower.HOW}")
    return parser


def _picture(text: str) -> Path:
    if Path(text).suffix not in history.FORMATS:
        raise argparse.ArgumentTypeError(f"picture {text!r}; expected a name ending in {', '.join(history.FORMATS)}")
    return Path(text)


def _parts(text: str) -> tuple[str, ...]:
    for name in text.split(","):
        if name not in rounds.PARTS:
            raise argparse.ArgumentTypeError(f"part {name!r}; expected some of {', '.join(rounds.PARTS)}")
    return tuple(text.split(","))


def _counts(text: str) -> tuple[int, ...]:
    if not all(part.isdecimal() and int(part) > 0 for part in text.split(",")):
        raise argparse.ArgumentTypeError(f"threads {text!r}; expected positive numbers separated by commas")
    return tuple(int(part) for part in text.split(","))


if __name__ == "__main__":
    sys.exit(main())
