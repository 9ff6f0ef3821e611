"""The options of `edgefl client`: server and samples, limits, training, durations, trust."""

from __future__ import annotations

import argparse
from pathlib import Path

from edgefl.cli.backend_option import add_backend
from edgefl.cli.former_option import add_former
from edgefl.cli.size_arguments import size

MAX_MODEL_BYTES = 256 << 20
GIVE_UP_S = 3600.0
LEARNERS = ("native", "torch")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds all options, in groups."""
    _add_server_and_samples(parser.add_argument_group("server and samples"))
    _add_limits(parser.add_argument_group("limits of the device"))
    _add_training(parser.add_argument_group("training"))
    _add_durations(parser.add_argument_group("durations"))
    _add_trust(parser.add_argument_group("trust", "A server on another machine needs TLS and a key, or --insecure."))


def _add_server_and_samples(parser: argparse._ArgumentGroup) -> None:
    """Adds the address of the server, the identity of the device and the places of its files."""
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--server", metavar="HOST:PORT", help="address of an `edgefl serve`")
    where.add_argument("--flower", metavar="URL", help="SuperLink of a Flower federation, as https://HOST:PORT")
    parser.add_argument(
        "--state",
        type=Path,
        required=True,
        metavar="DIR",
        help="directory that keeps the device's state between rounds",
    )
    parser.add_argument(
        "--data",
        type=Path,
        required=True,
        metavar="FILE.npz",
        help="file of the device's samples, as `edgefl partition` writes it",
    )
    parser.add_argument(
        "--accept-data",
        action="store_true",
        help="go on in a run with other samples in --data than the device has trained on there; without this option "
        "changed samples are refused",
    )
    parser.add_argument(
        "--id",
        type=int,
        metavar="N",
        help="id that the device is registered under; needed with --key; default without --key: the id that "
        "`edgefl partition` wrote into --data, or else any free id",
    )


def _add_limits(parser: argparse._ArgumentGroup) -> None:
    """Adds the limits on what the server may ask of the device."""
    parser.add_argument(
        "--capacity",
        type=float,
        default=1.0,
        metavar="SHARE",
        help="largest share of neurons that the device trains, above 0 and at most 1; default: %(default)g",
    )
    parser.add_argument(
        "--max-model",
        type=size,
        default=MAX_MODEL_BYTES,
        metavar="BYTES",
        help=f"largest packed model that the device accepts, in bytes or as 24MB; default: {MAX_MODEL_BYTES >> 20}MiB",
    )
    parser.add_argument(
        "--max-memory",
        type=size,
        metavar="BYTES",
        help="most memory that model and training may take beside the process and its samples, in bytes or as 64MB; "
        "default: no limit",
    )
    parser.add_argument(
        "--max-seconds",
        type=float,
        metavar="S",
        help="longest time that the training of a round, or an evaluation, may take, in seconds; default: no limit",
    )


def _add_training(parser: argparse._ArgumentGroup) -> None:
    """Adds what trains, for which methods, and what is measured meanwhile."""
    add_backend(parser)
    parser.add_argument(
        "--learner",
        choices=LEARNERS,
        default=LEARNERS[0],
        help="what trains: edgefl's kernels (native), or torch, which needs the extra 'torch'; default: %(default)s",
    )
    parser.add_argument(
        "--allow-method",
        action="append",
        default=[],
        metavar="NAME",
        help="name of a method, edgefl's own or package.module:Class; the device then takes part in runs of the named "
        "methods alone; may be repeated; default: every method of edgefl's own",
    )
    parser.add_argument(
        "--no-throughput",
        action="store_true",
        help="neither measure nor report how fast the device trains; the server then plans by the device's capacity "
        "tier; only for runs with --round-seconds",
    )
    add_former(parser, "--no-pace", "--no-throughput", is_flag=True)
    parser.add_argument(
        "--measure-energy",
        nargs="?",
        const="",
        metavar="RAIL,...",
        help="report the joules of training also where they are sampled from a power monitor or a battery; RAIL,...: "
        "the rails of the power monitor to add up (docs/boards.md); default: report joules only where the machine "
        "counts them",
    )


def _add_durations(parser: argparse._ArgumentGroup) -> None:
    """Adds the time for which the device looks for its server, and the number of finished runs that it keeps."""
    parser.add_argument(
        "--give-up",
        type=float,
        default=GIVE_UP_S,
        metavar="S",
        help="seconds without a connection to the server, or with connections that the server ends before it asks for "
        f"anything, after which the device ends with an error; inf: never; default: {GIVE_UP_S:g}",
    )
    parser.add_argument(
        "--keep-runs",
        type=int,
        metavar="N",
        help="number of runs that are over, the latest ones, whose files stay in --state; default: all",
    )


def _add_trust(trust: argparse._ArgumentGroup) -> None:
    """Adds the keys and certificates by which the device and the server prove to each other who they are."""
    trust.add_argument("--key", type=Path, metavar="FILE", help="file of the device's key, made by `edgefl keys`")
    trust.add_argument("--tls", action="store_true", help="connect with TLS to a server that has a certificate")
    trust.add_argument(
        "--tls-ca",
        type=Path,
        metavar="FILE",
        help="certificate of the authority that signed the server's certificate; implies --tls; "
        "default: the system's authorities",
    )
    trust.add_argument(
        "--tls-cert",
        type=Path,
        metavar="FILE",
        help="the device's own certificate, for a server that asks for one; implies --tls",
    )
    trust.add_argument("--tls-key", type=Path, metavar="FILE", help="private key of the certificate --tls-cert")
    trust.add_argument(
        "--node-key",
        type=Path,
        metavar="FILE",
        help="private key of the device as a node of a Flower federation; only with --flower; default: a key that is "
        "made once and kept in --state",
    )
    trust.add_argument("--insecure", action="store_true", help="talk to another machine without TLS or without a key")
