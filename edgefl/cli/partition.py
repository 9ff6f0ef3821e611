"""`edgefl partition` writes the samples of every client of an experiment into a file of its own, for the client's
device.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from edgefl.cli.access_error import sentence
from edgefl.cli.experiment_arguments import DATA_DIR, add_experiment, unlist
from edgefl.cli.experiment_options import requested
from edgefl.cli.working import working
from edgefl.errors import DataError, RequestError
from edgefl.experiment.assembly import assemble
from edgefl.experiment.client_dataset import PARTS, partition_file, write_partition
from edgefl.experiment.data.split import Split
from edgefl.experiment.run_data import data_of, say_notes
from edgefl.experiment.unit_checks import check_units

USED = (
    "--data", "--label", "--group", "--time", "--drop", "--axes", "--image-size", "--missing", "--fewest", "--model",
    "--partition", "--clients", "--pool", "--partition-test", "--seed", "--preset", "--loss", "--validation-share",
    "--standardise",
)  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the experiment, and the directory of the files."""
    parser.epilog = "The other options of `edgefl serve` are accepted as well, and change nothing here."
    add_experiment(parser)
    unlist(parser, USED.__contains__)
    parser.add_argument("--data-dir", metavar="DIR", help=DATA_DIR)
    parser.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help="directory for the files: device-0000.npz and so on"
    )


def run(options: argparse.Namespace) -> int:
    """Write the files. Raises RequestError before anything is written if the data cannot be partitioned as asked."""
    given = dict(vars(options))
    out, data_dir, as_json = (given.pop(name) for name in ("out", "data_dir", "json"))
    try:
        with working("reading and partitioning the data"):
            experiment, model = requested(given, None, data_dir=data_dir)
            data = data_of(experiment, data_dir)
            federation = assemble(experiment, data_dir, model, data)
        say_notes(data.name, federation.meaning.notes, sys.stderr)
        check_units(experiment, federation)
    except (ValueError, DataError, OSError) as error:
        raise RequestError(sentence(error)) from error
    out.mkdir(parents=True, exist_ok=True)
    with working(f"writing files into {out}", experiment.clients) as at:
        for client in range(experiment.clients):
            write_partition(partition_file(out, client), federation, client)
            at(client + 1)
    samples = len(federation.data)
    if as_json:
        clients = [_client(out, client, split) for client, split in enumerate(federation.clients)]
        print(json.dumps({"directory": str(out), "samples": samples, "clients": clients}))
    else:
        first = partition_file(out, 0).name
        print(f"{samples} samples partitioned into {experiment.clients} files in {out}, {first} first")
    return 0


def _client(out: Path, client: int, split: Split) -> dict[str, Any]:
    """Return the file of a client and its numbers of samples as JSON values."""
    counts = {name: len(getattr(split, name)) for name in PARTS}
    return {"client": client, "file": str(partition_file(out, client)), **counts}
