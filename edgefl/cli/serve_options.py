"""The options that only `edgefl serve` has: run directory, address, participation, end of a round, trust."""

from __future__ import annotations

import argparse
from pathlib import Path

from edgefl.cli.experiment_arguments import DATA_DIR, add_experiment, unlist
from edgefl.cli.page_options import ANYWHERE, add_token
from edgefl.cli.secure_serving import add_secure
from edgefl.methods.rounds.round_closing import MAX_EMPTY_ROUNDS
from edgefl.server import log_pruning, operator_command
from edgefl.server.admission import Caps
from edgefl.server.event_loop import LINGER_S
from edgefl.server.operator_command import ClientSelection
from edgefl.server.round_deadline import AdaptiveDeadline, Deadline

PORT = 7227
SIMULATED = ("--refresh", "--train-scores", "--held-out", "--diagnose")  # options that `serve` refuses


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add all options, and the options of the experiment."""
    add_experiment(parser)
    unlist(parser, lambda name: name not in SIMULATED)
    _add_run(parser.add_argument_group("the run and its directory"))
    _add_address(parser.add_argument_group("address and page"))
    _add_participation(parser.add_argument_group("clients that take part"))
    _add_presence(parser.add_argument_group("absent devices, and the end"))
    _add_round_closing(parser.add_argument_group("end of a round"))
    add_secure(parser.add_argument_group("secure aggregation", "The server sees sums of groups of clients alone."))
    _add_trust(
        parser.add_argument_group(
            "trust", "Devices on other machines need TLS and keys (see `edgefl keys`), or --insecure."
        )
    )


def _add_run(how: argparse._ArgumentGroup) -> None:
    """Add the directory of the run, and the run that goes on."""
    how.add_argument("--run-dir", type=Path, metavar="DIR", help="directory of the run (default: new in edgefl-runs)")
    how.add_argument("--resume", type=Path, metavar="RUN", help="directory of the run to continue")
    how.add_argument("--data-dir", metavar="DIR", help=DATA_DIR)
    how.add_argument(
        "--accept-data",
        action="store_true",
        help="continue although the data have changed since the run began. The option needs --resume. The file "
        "run.json keeps both digests.",
    )
    how.add_argument(
        "--accept-loss",
        type=int,
        action="append",
        default=[],
        metavar="ID",
        help="id of a client whose device may enrol once although it has lost its state or its secret. Repeat the "
        "option for more clients.",
    )
    how.add_argument(
        "--keep-rounds",
        type=int,
        default=log_pruning.KEPT,
        metavar="N",
        help="number of the last rounds whose metrics are kept for every client. Older rounds keep the totals. "
        f"(default: {log_pruning.KEPT})",
    )


def _add_address(how: argparse._ArgumentGroup) -> None:
    """Add the address of the server, and the address of its page."""
    how.add_argument(
        "--host", default="127.0.0.1", metavar="ADDR", help="address that the server listens on (default: 127.0.0.1)"
    )
    how.add_argument(
        "--port", type=int, default=PORT, metavar="PORT", help=f"port, or 0 for any free port (default: {PORT})"
    )
    how.add_argument(
        "--page",
        nargs="?",
        const=ANYWHERE,
        metavar="ADDR:PORT",
        help="address at which a browser shows the run. Without ADDR:PORT the page takes a free port of 127.0.0.1, "
        "which is printed. Other machines see the page only with --tls-cert and --page-token, or with --insecure. "
        "(default: no page)",
    )


def _add_round_closing(how: argparse._ArgumentGroup) -> None:
    """Add the conditions on which a round, or an evaluation, ends."""
    how.add_argument(
        "--quorum",
        type=int,
        metavar="N",
        help="number of accepted replies after which a round is closed (default: the replies of all planned clients)",
    )
    how.add_argument(
        "--deadline",
        type=_deadline,
        default=AdaptiveDeadline(),
        metavar="auto|S|none",
        help="time in seconds after which a round is closed whoever has replied. The word auto means a time that "
        "follows how long earlier replies have taken, and none means no limit. (default: auto)",
    )
    how.add_argument(
        "--evaluation-deadline",
        type=_deadline,
        default=AdaptiveDeadline(),
        metavar="auto|S|none",
        help="time in seconds after which an evaluation is closed, or one of the words of --deadline (default: auto)",
    )


def _add_participation(how: argparse._ArgumentGroup) -> None:
    """Add the clients that the server waits for: before round 1, in a round, and at the end of the run."""
    how.add_argument(
        "--open",
        action="store_true",
        help="let the number of clients grow up to --clients: rounds are chosen among the clients that have enrolled, "
        "and round 1 waits for --per-round of them. Each capacity tier gets its share of the devices as they come.",
    )
    how.add_argument(
        "--wait-for",
        type=int,
        metavar="N",
        help="number of clients that have to enrol before round 1 begins (default: all clients, or --per-round with "
        "--open)",
    )
    how.add_argument(
        "--select",
        type=_select,
        metavar="CHOICE",
        help="clients among which a round's clients are chosen: all, enrolled, seen:S for clients that were connected "
        "within the last S seconds, or a condition such as 'site == 3 and seen < 60'. A condition chooses "
        "among enrolled clients. (default: all)",
    )


def _add_presence(how: argparse._ArgumentGroup) -> None:
    """Add the times of devices that sleep, and the end of the server."""
    how.add_argument(
        "--max-empty-rounds",
        type=int,
        default=MAX_EMPTY_ROUNDS,
        metavar="K",
        help="number of rounds in a row without an accepted reply after which the run ends with an error "
        f"(default: {MAX_EMPTY_ROUNDS})",
    )
    how.add_argument(
        "--come-again",
        type=float,
        metavar="S",
        help="mean time in seconds for which the server sends away a device that may sleep (`edgefl client --sleep`) "
        "and has nothing to do. The times of the devices are spread evenly. (default: devices stay connected)",
    )
    how.add_argument(
        "--drain",
        type=float,
        default=0.0,
        metavar="S",
        help="time in seconds after SIGTERM in which the open round may end before the server does (default: the "
        "server ends at once)",
    )
    how.add_argument(
        "--linger",
        type=float,
        default=LINGER_S,
        metavar="S",
        help="time in seconds that the server waits after the last round for devices that are not connected, to tell "
        f"them that the run is over (default: {LINGER_S:g})",
    )


def _add_trust(trust: argparse._ArgumentGroup) -> None:
    trust.add_argument("--keys", type=Path, metavar="FILE", help="file of the devices' keys, which `edgefl keys` makes")
    trust.add_argument("--tls-cert", type=Path, metavar="FILE", help="certificate of the server")
    trust.add_argument("--tls-key", type=Path, metavar="FILE", help="private key of the certificate --tls-cert")
    trust.add_argument(
        "--tls-client-ca",
        type=Path,
        metavar="FILE",
        help="certificate of the authority that has to have signed the devices' certificates",
    )
    trust.add_argument(
        "--strangers",
        type=int,
        default=Caps.strangers,
        metavar="N",
        help=f"largest number of connections that have not enrolled (default: {Caps.strangers})",
    )
    trust.add_argument(
        "--strangers-per-address",
        type=int,
        default=Caps.per_address,
        metavar="N",
        help=f"largest number of connections from one address that have not enrolled (default: {Caps.per_address})",
    )
    add_token(trust, "--page-token")
    trust.add_argument(
        "--insecure",
        action="store_true",
        help="serve other machines without TLS or without keys, or serve with --secure and without --roster",
    )


def _deadline(text: str) -> Deadline:
    try:
        return operator_command.deadline(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _select(text: str) -> ClientSelection:
    try:
        return operator_command.selection(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
