"""The rules by which the rounds of a served run begin and end."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from edgefl.methods.rounds.asynchronous import AsynchronousRounds
from edgefl.methods.rounds.round_closing import MAX_EMPTY_ROUNDS, AggregationSettings
from edgefl.protocol.wire.attendance_messages import LONGEST_SLEEP_S
from edgefl.server.client_choice import ClientChoice
from edgefl.server.round_deadline import AdaptiveDeadline, Deadline

if TYPE_CHECKING:
    from edgefl.server.secure_settings import SecureSettings


@dataclass(frozen=True)
class Rules:
    """The rules of a coordinator.

    eval_every, evaluate_first  the rounds after which clients evaluate their models (experiment/evaluation_rounds.py)
    quorum                 accepted replies of authorised clients that close a round. None: every planned client must
                           reply
    deadline_s             seconds after which a round closes. AdaptiveDeadline: by earlier replies. None: no deadline
    evaluation_deadline_s  deadline of an evaluation in seconds. None: it waits for every enrolled client
    wait_for               number of enrolled clients before round 1
    values                 number format of the payloads
    seen_s                 a round's clients are chosen among those seen within these seconds. None: among all clients
    among_enrolled         where `seen_s` is None, a round's clients are chosen among those that have enrolled
    is_open                devices that ask for any id get ids that are spread over the range (client_links.py)
    choice                 condition on the enrolled clients among which a round's clients are chosen, in place of
                           `seen_s` and `among_enrolled`. None: no condition
    come_again_s           mean time in seconds for which a device that may sleep is sent away if it has nothing to do.
                           None: devices stay connected
    aggregation_settings   how accepted replies are aggregated when a round closes
    asynchronous           settings of asynchronous rounds. None: a round waits for its clients
    secure                 settings of secure aggregation. None: the server reads every reply
    max_empty_rounds       rounds in a row that accept nobody, after which the run ends with an error
    """

    rounds: int
    eval_every: int
    quorum: int | None = None
    deadline_s: Deadline = None
    evaluation_deadline_s: Deadline = None
    wait_for: int = 1
    values: str = "float32"
    seen_s: float | None = None
    aggregation_settings: AggregationSettings = field(default_factory=AggregationSettings)
    max_empty_rounds: int = MAX_EMPTY_ROUNDS
    among_enrolled: bool = False
    is_open: bool = False
    choice: ClientChoice | None = None
    come_again_s: float | None = None
    evaluate_first: bool = False
    secure: SecureSettings | None = None
    asynchronous: AsynchronousRounds | None = None

    def __post_init__(self) -> None:
        for name in ("rounds", "eval_every", "quorum", "wait_for", "max_empty_rounds"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name}={value}; expected {name} >= 1")
        for name in ("deadline_s", "evaluation_deadline_s", "seen_s", "come_again_s"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, AdaptiveDeadline) and not 0 < value < float("inf"):
                raise ValueError(f"{name}={value}; expected a finite time > 0")
        if self.come_again_s is not None and 1.5 * self.come_again_s > LONGEST_SLEEP_S:
            most = int(LONGEST_SLEEP_S / 1.5)
            raise ValueError(f"come_again_s={self.come_again_s:g}; expected at most {most} s, as devices sleep 7 days")
