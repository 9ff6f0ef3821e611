"""python -m bench WHAT: figures of this machine, beside PyTorch's, and beside Flower's for rounds."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from itertools import chain
from pathlib import Path

from bench import (
    caps,
    codec,
    codec_masks,
    cuts,
    federation,
    figures,
    flower,
    heads,
    history,
    kernels,
    machine,
    masked,
    memory,
    operations,
    peak,
    rounds,
    step,
    verdict,
)
from bench.commands import COMMANDS, listed
from bench.rows import Row, print_json, print_table
from bench.runner import PRODUCTS, QUICK, QUICK_STEPS, STEPS, Effort

WHATS = ("step", "kernels", "operations", "peak", "memory", "codec", "federation", "heads", "rounds", "masked")
WHATS += ("history", "cuts")
MOVED = ("faults", "fuzz", "mutants", "vopr")  # to the tests. A version later these words are unknown
BUSY = 0.5  # load per core before the measurement


def main(arguments: list[str] | None = None) -> int:
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments and arguments[0] in MOVED:
        print(f"python -m bench {arguments[0]} has moved; run python -m tests {arguments[0]}", file=sys.stderr)
        return 2
    if arguments and arguments[0] in COMMANDS:
        return COMMANDS[arguments[0]].run(arguments[1:])
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.record is not None and options.what != "step":
        parser.error(f"--record with {options.what}; expected it with step only")
    if options.isa:
        caps.start_anew(options.isa, arguments)
    if options.what == "history":
        history.draw(options.plot, history.read(history.FILE))
        return 0
    facts = machine.facts()
    if float(facts["load"]) > BUSY * int(facts["cores"]):
        print(f"load {facts['load']:.1f} on {facts['cores']} cores: wall times will say little", file=sys.stderr)
    _measure(options, facts, _effort(options))
    return 0


def _measure(options: argparse.Namespace, facts: machine.Facts, effort: Effort) -> None:
    """Measure and print what was asked for."""
    plain = {
        "peak": lambda: peak.measure(options.threads, effort),
        "memory": memory.rows,
        "codec": lambda: chain(codec.measure(effort), codec_masks.measure(effort)),
    }
    if options.what in plain:
        for row in plain[options.what]():
            print(json.dumps(row))
    elif options.what in ("rounds", "federation", "heads", "masked", "cuts"):
        (figures.print_json if options.json else figures.print_table)(facts, _figures(options))
    elif options.what == "operations":
        measured = operations.measure(effort, options.only, options.compiled)
        (print_json if options.json else print_table)(facts, measured)
    else:
        _print_rows(options, facts, effort)


def _print_rows(options: argparse.Namespace, facts: machine.Facts, effort: Effort) -> None:
    """Measure and print steps, with what cuts save, or kernels, with the verdicts on them."""
    measure = step.measure if options.what == "step" else kernels.measure
    cases = [case._replace(batches=options.batches or case.batches) for case in options.models]
    rows = measure(cases, options.threads, effort)
    if options.record is not None:
        rows = history.recording(options.record, facts, rows)
    shown: list[Row] = []
    (print_json if options.json else print_table)(facts, _kept(rows, shown))
    if options.what == "kernels":
        _print_verdicts(shown, options.json)
    else:
        _print_cuts(options, facts, effort)


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
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description=__doc__,
        epilog=f"commands with options of their own:\n{listed()}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
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
