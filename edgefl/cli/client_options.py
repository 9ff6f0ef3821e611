"""The options of `edgefl client`: server and samples, limits, training, durations and trust."""

from __future__ import annotations

import argparse
from pathlib import Path

from edgefl.cli.backend_option import add_backend
from edgefl.cli.former_option import add_former
from edgefl.cli.size_arguments import size
from edgefl.protocol.wire.group_defaults import LEAST

MAX_MODEL_BYTES = 256 << 20
GIVE_UP_S = 3600.0
LEARNERS = ("native", "torch")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add all options, in groups."""
    where = parser.add_argument_group("server and samples")
    _add_server_and_samples(where)
    _add_base(where)
    _add_attendance(parser.add_argument_group("attendance"))
    _add_limits(parser.add_argument_group("limits of the device"))
    _add_training(parser.add_argument_group("training"))
    _add_durations(parser.add_argument_group("durations"))
    _add_secure(parser.add_argument_group("secure aggregation", "The server sees sums of groups of clients alone."))
    _add_trust(parser.add_argument_group("trust", "A server on another machine needs TLS and a key, or --insecure."))


def _add_server_and_samples(parser: argparse._ArgumentGroup) -> None:
    """Add the address of the server, the identity of the device and the places of its files."""
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--server", metavar="HOST:PORT", help="address of the server that `edgefl serve` runs")
    where.add_argument(
        "--flower", metavar="URL", help="address of the SuperLink of a Flower federation, as https://HOST:PORT"
    )
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
        metavar="FILE.npz",
        help="file of the device's samples, as `edgefl partition` writes it. Only --leave works without it.",
    )
    parser.add_argument(
        "--accept-data",
        action="store_true",
        help="continue a run although the samples in --data have changed since the device trained in the run. Without "
        "the option, changed samples are refused.",
    )
    parser.add_argument(
        "--id",
        type=int,
        metavar="N",
        help="id that the device is registered under. The option --key needs an id. (default: the id that `edgefl "
        "partition` wrote into --data, or else any free id)",
    )


def _add_base(parser: argparse._ArgumentGroup) -> None:
    """Add the model that lies on the device."""
    parser.add_argument(
        "--base",
        type=Path,
        metavar="FILE.safetensors",
        help="model file on the device, as `edgefl convert` writes it. The device does not download frozen "
        "parameters of a run that are in the file. (default: the device downloads frozen parameters once)",
    )


def _add_attendance(parser: argparse._ArgumentGroup) -> None:
    """Add what the device tells the server about its presence in the run."""
    parser.add_argument(
        "--tag",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="tag that the server is told about the device, such as site=north. Name and value have 1 to 64 letters, "
        "digits and characters of _.:/+-. Repeat the option for more tags.",
    )
    parser.add_argument(
        "--sleep",
        action="store_true",
        help="let the server send the device away for a while when it has no work. The device connects again then.",
    )
    parser.add_argument(
        "--leave",
        action="store_true",
        help="tell the server that the device leaves the run, and end. The files in --state stay. A later start of the "
        "device without --leave is its return.",
    )


def _add_limits(parser: argparse._ArgumentGroup) -> None:
    """Add the limits on what the server may ask of the device."""
    parser.add_argument(
        "--capacity",
        type=float,
        default=1.0,
        metavar="SHARE",
        help="largest share of neurons that the device trains, above 0 and at most 1 (default: %(default)g)",
    )
    parser.add_argument(
        "--max-model",
        type=size,
        default=MAX_MODEL_BYTES,
        metavar="BYTES",
        help=f"largest packed model that the device accepts, in bytes or as 24MB (default: {MAX_MODEL_BYTES >> 20}MiB)",
    )
    parser.add_argument(
        "--max-memory",
        type=size,
        metavar="BYTES",
        help="largest memory that model and training may take, without the process and its samples, in bytes or as "
        "64MB (default: no limit)",
    )
    parser.add_argument(
        "--max-seconds",
        type=float,
        metavar="S",
        help="longest time that the training of a round, or an evaluation, may take, in seconds (default: no limit)",
    )


def _add_training(parser: argparse._ArgumentGroup) -> None:
    """Add the software that trains, the allowed methods, and the measurements during training."""
    add_backend(parser)
    parser.add_argument(
        "--learner",
        choices=LEARNERS,
        default=LEARNERS[0],
        help="software that trains: native for edgefl's kernels, or torch, which needs the extra 'torch' (default: "
        "%(default)s)",
    )
    parser.add_argument(
        "--allow-method",
        action="append",
        default=[],
        metavar="NAME",
        help="name of a method of edgefl, or package.module:Class. The device then takes part only in runs of the "
        "methods that are named. Repeat the option for more methods. (default: every method of edgefl)",
    )
    parser.add_argument(
        "--no-throughput",
        action="store_true",
        help="neither measure nor report how fast the device trains. The server then plans by the device's capacity "
        "tier. Only runs with --round-seconds ask for the throughput.",
    )
    add_former(parser, "--no-pace", "--no-throughput", is_flag=True)
    parser.add_argument(
        "--measure-energy",
        nargs="?",
        const="",
        metavar="RAIL,...",
        help="report the joules of training also where they are sampled from a power monitor or a battery. RAIL,... "
        "names the rails of the power monitor to add up, as docs/boards.md describes. (default: joules are reported "
        "only where the machine counts them)",
    )


def _add_durations(parser: argparse._ArgumentGroup) -> None:
    """Add the time for which the device looks for its server, and the number of finished runs that the device keeps."""
    parser.add_argument(
        "--give-up",
        type=float,
        default=GIVE_UP_S,
        metavar="S",
        help="time in seconds without a connection to the server, or with connections that the server ends before it "
        f"asks for anything, after which the device ends with an error. The word inf means never. (default: "
        f"{GIVE_UP_S:g})",
    )
    parser.add_argument(
        "--keep-runs",
        type=int,
        metavar="N",
        help="number of the latest finished runs whose files stay in --state (default: all)",
    )


def _add_secure(parser: argparse._ArgumentGroup) -> None:
    """Add what the device asks of secure aggregation."""
    parser.add_argument(
        "--identity",
        type=Path,
        metavar="FILE",
        help="file of the device's identity, which `edgefl keys --join` makes. With the option the device takes part "
        "in runs with secure aggregation alone. The option needs --operator, or --insecure.",
    )
    parser.add_argument(
        "--operator",
        metavar="FILE.pub",
        help="public half of the operator's key, by which the roster is signed, as a file or as its line of text",
    )
    parser.add_argument(
        "--federation",
        default="",
        metavar="NAME",
        help="name of the federation (default: the name in the first roster that the device accepts)",
    )
    parser.add_argument(
        "--secure-least",
        type=int,
        default=LEAST,
        metavar="N",
        help=f"least number of clients in a sum that the device helps to open (default: {LEAST})",
    )
    parser.add_argument(
        "--secure-colluders",
        type=int,
        default=0,
        metavar="N",
        help="number of clients of a group who may tell the server all that they know (default: 0)",
    )


def _add_trust(trust: argparse._ArgumentGroup) -> None:
    """Add the keys and certificates by which the device and the server prove to each other who they are."""
    trust.add_argument("--key", type=Path, metavar="FILE", help="file of the device's key, which `edgefl keys` makes")
    trust.add_argument(
        "--former-key",
        type=Path,
        metavar="FILE",
        help="file of the key that the device had before. The device goes on in its runs with the new key of --key.",
    )
    trust.add_argument("--tls", action="store_true", help="connect with TLS to a server that has a certificate")
    trust.add_argument(
        "--tls-ca",
        type=Path,
        metavar="FILE",
        help="certificate of the authority that signed the server's certificate. The option implies --tls. (default: "
        "the system's authorities)",
    )
    trust.add_argument(
        "--tls-cert",
        type=Path,
        metavar="FILE",
        help="certificate of the device, for a server that asks for a certificate. The option implies --tls.",
    )
    trust.add_argument("--tls-key", type=Path, metavar="FILE", help="private key of the certificate --tls-cert")
    trust.add_argument(
        "--node-key",
        type=Path,
        metavar="FILE",
        help="private key of the device as a node of a Flower federation. The option needs --flower. (default: a key "
        "that is made once and kept in --state)",
    )
    trust.add_argument(
        "--insecure",
        action="store_true",
        help="talk to another machine without TLS or without a key, or take part with --identity and without "
        "--operator",
    )
