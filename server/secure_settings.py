"""The settings of a served run that sums replies by secure aggregation, as values and as a file of the run's directory.

The run's directory keeps the settings and the roster, so that a resumed run goes on as it began.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path

from edgefl.errors import RunError, SecurityError
from edgefl.protocol.secure.handed_identities import handed_roster
from edgefl.protocol.secure.roster import Roster
from edgefl.protocol.trust.identity_files import roster_of
from edgefl.protocol.wire.group_defaults import COLLUDERS, LEAST, LOSSES, STEP_S
from edgefl.protocol.wire.messages import RosterPart, SecureOffer
from edgefl.protocol.wire.secure_messages import LARGEST_ROSTER, ROSTER_BYTES
from edgefl.system.durable_files import write_atomically

FILE, ROSTER = "secure.json", "roster"
HANDED = "handed"  # entry of secure.json in a run without a roster


@dataclass(frozen=True)
class SecureSettings:
    """The settings of secure aggregation in a run.

    signed     roster of the federation, signed by its operator. Empty: the run has no operator, and the server hands on
               the identities that its devices say they have (protocol/secure/handed_identities.py)
    least      least number of clients whose sum is opened
    losses     clients of a group who may be lost in all, over all steps of a round
    colluders  clients of a group who may tell the server all that they know
    step_s     seconds for which a step waits for clients of its group
    run        name of the run in the terms of its groups (protocol/wire/run_terms.py)
    """

    signed: bytes
    least: int = LEAST
    losses: int = LOSSES
    colluders: int = COLLUDERS
    step_s: float = STEP_S
    run: str = ""

    def __post_init__(self) -> None:
        for name, lowest in (("least", LEAST), ("losses", 0), ("colluders", 0)):
            if getattr(self, name) < lowest:
                raise ValueError(f"--secure-{name} {getattr(self, name)}; expected at least {lowest}")
        if not 0 < self.step_s < float("inf"):
            raise ValueError(f"--secure-step {self.step_s}; expected a number of seconds above 0")
        if len(self.signed) > LARGEST_ROSTER:
            raise ValueError(
                f"a roster of {len(self.roster.keys)} clients has {len(self.signed)} bytes; expected at most "
                f"{LARGEST_ROSTER} bytes, which a device takes"
            )

    @property
    def is_handed(self) -> bool:
        """Return whether the server hands on the identities of devices, because no operator has signed a roster."""
        return not self.signed

    @cached_property
    def roster(self) -> Roster:
        """The roster, whose signature devices check. Raises SecurityError in a run without a roster."""
        return roster_of(self.signed)

    def roster_of(self, identities: Mapping[int, bytes]) -> Roster:
        """Return the roster of a group: the run's roster, or the roster of the identities that its clients have sent.

        identities  public half of the identity of each client of the group, 32 bytes
        """
        return handed_roster(identities) if self.is_handed else self.roster

    @cached_property
    def offer(self) -> tuple[RosterPart | SecureOffer, ...]:
        """The messages that every device is sent before it is welcome. A large roster comes in parts."""
        if len(self.signed) <= ROSTER_BYTES:
            return (SecureOffer(self.signed, self.least, self.colluders),)
        size = len(self.signed)
        parts = [RosterPart(size, at, self.signed[at : at + ROSTER_BYTES]) for at in range(0, size, ROSTER_BYTES)]
        return (*parts, SecureOffer(b"", self.least, self.colluders))

    @property
    def smallest(self) -> int:
        """The smallest number of clients of a group that can be opened after the tolerated losses."""
        count = self.least + self.losses
        while (count + self.colluders) // 2 + 1 > count - self.losses:
            count += 1
        return count

    def write(self, run: Path) -> None:
        """Keep the settings in the directory of a run."""
        values = {name: value for name, value in asdict(self).items() if name not in ("signed", "run")}
        if self.is_handed:
            values[HANDED] = True
        else:
            write_atomically(run / ROSTER, self.signed)
        write_atomically(run / FILE, json.dumps(values).encode())


def read(run: Path, signed: bytes | None = None) -> SecureSettings | None:
    """Read the settings of a run, or return None for a run without secure aggregation.

    signed  newer roster, which takes the place of the roster of the run
    Raises  RunError if a file is damaged, or if the roster is older than the roster of the run.
    """
    if not (run / FILE).exists():
        return None
    try:
        values = json.loads((run / FILE).read_bytes())
        is_handed = values.pop(HANDED, False)
        kept = SecureSettings(b"" if is_handed else (run / ROSTER).read_bytes(), **values)
        if not is_handed:
            kept.roster  # noqa: B018  # a damaged roster is noticed here
    except (OSError, SecurityError, TypeError, ValueError) as error:
        raise RunError(f"{run / FILE} and {run / ROSTER} cannot be read ({error}); restore both files") from None
    if signed is None:
        return kept
    if kept.is_handed:
        raise RunError(f"a roster for the run {run}, which began without a roster; expected no --roster, or a new run")
    newer = replace(kept, signed=signed)
    if newer.roster.federation != kept.roster.federation or newer.roster.version < kept.roster.version:
        raise RunError(
            f"version {newer.roster.version} of the roster of {newer.roster.federation!r}; expected version "
            f"{kept.roster.version} of {kept.roster.federation!r}, which the run has, or a newer one"
        )
    return newer
