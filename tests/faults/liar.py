"""`python -m tests.faults.liar ATTACK client ...`: a device that is `edgefl client ...` in all but its replies.

It claims a false number of samples at enrolment already, if the attack is a claim.
"""

from __future__ import annotations

import sys
from functools import partial

from edgefl.cli.cli import main
from edgefl.deployment.device.device_model import Data
from edgefl.methods import METHODS
from tests.faults.liars import ATTACKS, MOST, lying


def lie(attack: str) -> None:
    """Make the devices of this process lie from now on."""
    METHODS.update({name: partial(lying, make(), ATTACKS[attack]) for name, make in METHODS.items()})
    if attack == "claim":
        Data.counts = property(lambda data: [MOST, 0, 0])  # type: ignore[method-assign, assignment]


if __name__ == "__main__":
    lie(sys.argv[1])
    sys.exit(main(sys.argv[2:]))
