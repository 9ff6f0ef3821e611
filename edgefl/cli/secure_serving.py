"""`edgefl serve --secure`: the options of secure aggregation, and the checks of a run before it begins."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgefl.experiment.assembled_experiment import AssembledExperiment
from edgefl.methods.rounds.sums_only import group_sizes, problem
from edgefl.protocol.wire.group_defaults import COLLUDERS, LEAST, LOSSES, STEP_S

if TYPE_CHECKING:
    from edgefl.server.secure_settings import SecureSettings

NAMES = ("secure", "roster", "secure_least", "secure_losses", "secure_colluders", "secure_step")
METHOD, EXACT = "fedspu:draws=shared", "exact"
WITHOUT_ROSTER = (
    "expected the roster that `edgefl keys --roster` makes, or --insecure, with which this server says who its devices "
    "are"
)


def add_secure(parser: argparse._ArgumentGroup) -> None:
    """Add the options of secure aggregation."""
    parser.add_argument(
        "--secure",
        action="store_true",
        help="sum the replies of a group of clients by secure aggregation. The server then sees sums alone. The option "
        "needs --roster, or --insecure, and implies --aggregation exact.",
    )
    parser.add_argument(
        "--roster",
        type=Path,
        metavar="FILE",
        help="signed roster of the federation, which `edgefl keys --roster` makes. With --resume, the option gives a "
        "newer roster.",
    )
    for name, value, meaning in (
        ("least", LEAST, "least number of clients whose sum is opened"),
        ("losses", LOSSES, "number of clients of a group that may be lost in a round"),
        ("colluders", COLLUDERS, "number of clients of a group who may tell the server all that they know"),
    ):
        kind = {"type": int, "default": value, "metavar": "N"}
        parser.add_argument(f"--secure-{name}", help=f"{meaning} (default: {value})", **kind)  # type: ignore[arg-type]
    parser.add_argument(
        "--secure-step",
        type=float,
        default=STEP_S,
        metavar="S",
        help=f"time in seconds that a step of secure aggregation waits for clients (default: {STEP_S:g})",
    )


def prepare(how: argparse.Namespace, options: dict[str, Any]) -> SecureSettings | None:
    """Return the settings of a secure run, or None for another run. A new run gets the mean and the method it needs.

    Raises  ValueError, RequestError or RunError for options or files that do not fit.
    """
    if how.resume is not None:
        return _of_run(how)
    if not how.secure:
        if how.roster is not None:
            raise ValueError(f"--roster {how.roster} without --secure; expected both")
        return None
    if how.roster is None and not how.insecure:
        raise ValueError(f"--secure without --roster; {WITHOUT_ROSTER}")
    from edgefl.protocol.trust.identity_files import read_signed_roster
    from edgefl.server.secure_settings import SecureSettings

    given = options.setdefault("aggregation", EXACT)
    if given != EXACT:
        raise ValueError(f"--aggregation {given} with --secure, which hides single replies; expected exact")
    bound = options.setdefault("bound", "off")
    if bound != "off":
        raise ValueError(f"--bound {bound} with --secure, which hides single replies; expected off")
    options.setdefault("method", [METHOD])
    numbers = how.secure_least, how.secure_losses, how.secure_colluders, how.secure_step
    return SecureSettings(b"" if how.roster is None else read_signed_roster(how.roster), *numbers)


def _of_run(how: argparse.Namespace) -> SecureSettings | None:
    """Return the settings that the resumed run has kept, with a newer roster if one is given."""
    if not (how.resume / "secure.json").exists():
        if how.secure or how.roster is not None:
            raise ValueError(f"--resume {how.resume}, a run without secure aggregation; expected no --secure")
        return None
    from edgefl.protocol.trust.identity_files import read_signed_roster
    from edgefl.server.secure_settings import read

    settings = read(how.resume, None if how.roster is None else read_signed_roster(how.roster))
    if settings is not None and settings.is_handed and not how.insecure:
        raise ValueError(f"--resume {how.resume}, a run without a roster; {WITHOUT_ROSTER}")
    return settings


def warning(settings: SecureSettings | None) -> str:
    """Return the warning about a secure run without a roster, or "" for another run."""
    if settings is None or not settings.is_handed:
        return ""
    return (
        "--secure without --roster: this server tells each device who the other devices are. A server that lies can "
        "make up devices, and read what a single device trains"
    )


def check(assembled: AssembledExperiment, settings: SecureSettings) -> None:
    """Raise ValueError unless the run can be summed, with groups that are large enough."""
    experiment = assembled.experiment
    ((_, algorithm),) = assembled.algorithms.items()
    if why := problem(algorithm):
        raise ValueError(f"--secure: {why}")
    for name, expected in (("values", "float32"), ("aggregation", EXACT), ("bound", "off")):
        if getattr(experiment, name) != expected:
            raise ValueError(f"--{name} {getattr(experiment, name)} with --secure; expected {expected}")
    task = assembled.federation.task(experiment.rounds)
    if not settings.is_handed:
        _check_roster(settings, task.clients)
    smallest = settings.smallest
    per_round = int(algorithm.per_round)  # type: ignore[attr-defined]
    if group_sizes(algorithm, task, per_round)[0] >= smallest:
        return
    for more in range(per_round, task.clients + 1):
        if (sizes := group_sizes(algorithm, task, more))[0] >= smallest:
            raise ValueError(
                f"--per-round {per_round} gives a group of size {group_sizes(algorithm, task, per_round)[0]}; "
                f"expected at least --per-round {more}, so that each of {len(sizes)} groups has {smallest} clients: "
                f"--secure-least {settings.least}, and --secure-losses {settings.losses}"
            )
    found = group_sizes(algorithm, task, task.clients)
    raise ValueError(
        f"{task.clients} clients in {len(found)} groups, of which one has {found[0]} clients; expected at least "
        f"{smallest} clients in each group, or fewer --secure-losses"
    )


def _check_roster(settings: SecureSettings, clients: int) -> None:
    """Raise ValueError unless the roster has all clients of the run."""
    roster = settings.roster
    missing = [client for client in range(clients) if client not in roster.keys or client in roster.revoked]
    if missing:
        raise ValueError(
            f"client {missing[0]} and {len(missing) - 1} others are not in version {roster.version} of the roster, or "
            f"are revoked; expected all {clients} clients of the run"
        )
