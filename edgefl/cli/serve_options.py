"""The options of `edgefl serve` beside those of the experiment: place and address, rounds over a network, trust."""

from __future__ import annotations

import argparse
from pathlib import Path

from edgefl.cli.experiment_options import add_experiment, unlist
from edgefl.cli.page_options import ANYWHERE, add_token
from edgefl.methods.rounds.round_closing import MAX_EMPTY_ROUNDS
from edgefl.server import log_pruning
from edgefl.server.admission import Caps
from edgefl.server.event_loop import LINGER_S
from edgefl.server.round_deadline import AdaptiveDeadline, Deadline

PORT = 7227
ENROLLED = "enrolled"  # of --select
SIMULATED = ("--refresh", "--train-scores")  # which `serve` refuses


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """All options, those of the experiment as well."""
    add_experiment(parser)
    unlist(parser, lambda name: name not in SIMULATED)
    how = parser.add_argument_group("how to serve it")
    _add_directories_and_address(how)
    _add_participation(how)
    _add_round_closing(how)
    _add_trust(parser.add_argument_group("trust", "beyond loopback: TLS and keys (see `edgefl keys`), or --insecure"))


def _add_directories_and_address(how: argparse._ArgumentGroup) -> None:
    """Where files lie, and where it listens."""
    how.add_argument("--data-dir", help="directory of the data set's files")
    how.add_argument("--run-dir", type=Path, help="directory of the run; default: a new one in edgefl-runs")
    how.add_argument("--resume", type=Path, metavar="RUN", help="continue the run in this directory")
    how.add_argument(
        "--accept-data",
        action="store_true",
        help="with --resume: go on with data that have changed since the run began; run.json keeps the digests of both",
    )
    how.add_argument(
        "--accept-loss",
        type=int,
        action="append",
        default=[],
        metavar="ID",
        help="let this client's device in once although it has lost what it kept, or its secret; may be repeated",
    )
    how.add_argument("--host", default="127.0.0.1", help="address to listen on; default: loopback")
    how.add_argument("--port", type=int, default=PORT, help=f"port to listen on, 0 for any free one; default: {PORT}")
    how.add_argument(
        "--page",
        nargs="?",
        const=ANYWHERE,
        metavar="ADDR:PORT",
        help="show the run as a page in a browser at this address; default address: a free port of 127.0.0.1, which is "
        "printed; other machines need --tls-cert and --page-token, or --insecure",
    )
    how.add_argument(
        "--keep-rounds",
        type=int,
        default=log_pruning.KEPT,
        metavar="N",
        help=f"last rounds whose metrics are kept client by client, older ones in total; default: {log_pruning.KEPT}",
    )


def _add_round_closing(how: argparse._ArgumentGroup) -> None:
    """When a round, or an evaluation, ends."""
    how.add_argument(
        "--quorum",
        type=int,
        metavar="N",
        help="number of accepted replies after which a round is closed; default: the replies of all planned clients",
    )
    how.add_argument(
        "--deadline",
        type=_deadline,
        default=AdaptiveDeadline(),
        metavar="auto|S|none",
        help="time in seconds after which a round is closed whoever has replied; auto: a time that follows how long "
        "earlier replies have taken; none: no limit; default: auto",
    )
    how.add_argument(
        "--evaluation-deadline",
        type=_deadline,
        default=AdaptiveDeadline(),
        metavar="auto|S|none",
        help="time in seconds after which an evaluation is closed, auto or none, as for --deadline; default: auto",
    )


def _add_participation(how: argparse._ArgumentGroup) -> None:
    """Which clients the server waits for, before round 1, in a round, and at the end of the run."""
    how.add_argument(
        "--wait-for",
        type=int,
        metavar="N",
        help="number of clients that have to enrol before round 1 begins; default: all clients",
    )
    how.add_argument(
        "--select",
        type=_select,
        metavar="all|enrolled|seen:S",
        help="clients among which a round's clients are chosen: all of the run, the clients that have enrolled, or "
        "the clients that were connected within the last S seconds; default: all",
    )
    how.add_argument(
        "--max-empty-rounds",
        type=int,
        default=MAX_EMPTY_ROUNDS,
        metavar="K",
        help="number of rounds in a row without an accepted reply after which the run ends with an error; "
        f"default: {MAX_EMPTY_ROUNDS}",
    )
    how.add_argument(
        "--linger",
        type=float,
        default=LINGER_S,
        metavar="S",
        help="time in seconds that the server waits after the last round for devices that are not connected, to tell "
        f"them the end; default: {LINGER_S:g}",
    )


def _add_trust(trust: argparse._ArgumentGroup) -> None:
    trust.add_argument("--keys", type=Path, metavar="FILE", help="file of the devices' keys (see `edgefl keys`)")
    trust.add_argument("--tls-cert", type=Path, metavar="FILE", help="the server's certificate")
    trust.add_argument("--tls-key", type=Path, metavar="FILE", help="private key of --tls-cert")
    trust.add_argument(
        "--tls-client-ca", type=Path, metavar="FILE", help="ask devices for certificates signed by this authority"
    )
    trust.add_argument(
        "--strangers",
        type=int,
        default=Caps.strangers,
        metavar="N",
        help=f"most connections that have not enrolled; default: {Caps.strangers}",
    )
    trust.add_argument(
        "--strangers-per-address",
        type=int,
        default=Caps.per_address,
        metavar="N",
        help=f"the same for one address; default: {Caps.per_address}",
    )
    add_token(trust, "--page-token")
    trust.add_argument("--insecure", action="store_true", help="serve other machines without TLS or keys")


def _deadline(text: str) -> Deadline:
    if text in ("auto", "none"):
        return AdaptiveDeadline() if text == "auto" else None
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"deadline {text!r}; expected auto, none or a number of seconds > 0")
    return seconds


def _select(text: str) -> float | str | None:
    """Seconds for seen:S, ENROLLED, or None for all."""
    if text == "all":
        return None
    if text == ENROLLED:
        return text
    kind, _, seconds = text.partition(":")
    try:
        within_s = float(seconds) if kind == "seen" else 0.0
    except ValueError:
        within_s = 0.0
    if not 0 < within_s < float("inf"):
        raise argparse.ArgumentTypeError(f"selection {text!r}; expected all, enrolled, or seen:SECONDS")
    return within_s
