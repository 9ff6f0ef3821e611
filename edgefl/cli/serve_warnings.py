"""The warnings of `edgefl serve` before a run, and about devices whose samples differ from the server's own partition.
Nothing is refused here.
"""

from __future__ import annotations

from collections.abc import Callable

from edgefl.cli.client_options import MAX_MODEL_BYTES
from edgefl.experiment.assembled_experiment import AssembledExperiment
from edgefl.experiment.sample_minimum import small_clients
from edgefl.server.round_rules import Rules

MOST_NAMED = 5  # largest number of devices that are named


def large_model(model_bytes: int) -> str:
    """Return a warning that clients refuse a packed model of this size by default, or "" if they accept it."""
    if model_bytes <= MAX_MODEL_BYTES:
        return ""
    return (
        f"the model has {model_bytes} bytes, and devices refuse more than {MAX_MODEL_BYTES} by default: "
        f"start them with `edgefl client --max-model {model_bytes}`"
    )


def small_partition(assembled: AssembledExperiment) -> str:
    """Return a warning that the server's own partition gives clients too few samples, so that their devices will be
    refused. Return "" where the samples suffice.
    """
    found = small_clients(assembled.algorithms, assembled.federation, assembled.experiment.rounds)
    return f"{found}; a device that declares so few is refused at its enrolment" if found else ""


def early_start(assembled: AssembledExperiment, rules: Rules) -> str:
    """Return a warning that round 1 may choose clients that have not enrolled, with the option that prevents it. Return
    "" if round 1 cannot choose them.
    """
    clients, ((_, algorithm),) = assembled.experiment.clients, assembled.algorithms.items()
    if rules.wait_for >= clients or rules.seen_s is not None or rules.among_enrolled or algorithm.asks_all:
        return ""
    return (
        f"--wait-for {rules.wait_for} is below --clients {clients}: round 1 chooses among all clients, and waits for "
        "those that have not enrolled until its deadline; --select enrolled, or --select seen:SECONDS, chooses among "
        "clients that are there"
    )


class PartitionComparison:
    """A comparison of the counts that devices declare with the server's own partition.

    expected  training samples by client
    say       takes the lines, at most MOST_NAMED and one more
    """

    def __init__(self, expected: list[int], say: Callable[[str], None]) -> None:
        self._expected, self._say, self._differing = expected, say, 0

    def enrolled(self, client: int, examples: int | None) -> None:
        """Take the number of training samples that a client's device declares, or None if the device does not say."""
        if examples is None or examples == self._expected[client]:
            return
        self._differing += 1
        if self._differing <= MOST_NAMED:
            self._say(
                f"client {client} declares {examples} training samples; the server's own partition gives it "
                f"{self._expected[client]}: the run goes on, but `simulate` with these settings is another run"
            )
        elif self._differing == MOST_NAMED + 1:
            self._say("more devices declare other counts than the server's own partition; they are not named")
