"""The settings of a simulation's round loop. settings.py has the settings of the whole experiment."""

from __future__ import annotations

from dataclasses import dataclass, field

from edgefl.experiment.device_models.device_assignment import Fleet
from edgefl.methods.rounds.asynchronous import AsynchronousRounds
from edgefl.methods.rounds.round_closing import MAX_EMPTY_ROUNDS, AggregationSettings
from edgefl.protocol.codec import FORMATS


@dataclass(frozen=True)
class Settings:
    """The settings of the round loop. No result depends on `workers` and `check_wire`.

    eval_every, evaluate_first  choice of the rounds after which models are evaluated (evaluation_rounds.py)
    stop_after        round after which the run ends early, while methods are told `rounds`. None: no early end
    aggregation_settings  settings of the aggregation of accepted replies
    max_empty_rounds  rounds in a row without an accepted reply, after which a run ends with an error
    refresh           epochs of training before a second evaluation, from the newest values. 0: no second evaluation
    train_scores      whether models are evaluated on clients' training samples too
    diagnose          whether evaluated rounds have gradient norms, overlap and drift of masks (rounds/diagnosis.py)
    fleet             devices as which clients are modelled in virtual time. None: clients are not modelled
    asynchronous      settings of asynchronous rounds. None: a round waits for its clients
    check_wire        number of clients of a round of whom one is given its plan and asked for its reply by messages,
                      which are compared with what is passed on without messages. 0: only the first client of a round
    deadline_s        seconds of virtual time after which a round is closed. 0: a round waits for everybody
    """

    rounds: int = 100
    eval_every: int = 10
    checkpoint_every: int = 10
    values: str = "float32"  # number format of the payloads: one of codec.FORMATS
    workers: int = 1
    stop_after: int | None = None
    aggregation_settings: AggregationSettings = field(default_factory=AggregationSettings)
    max_empty_rounds: int = MAX_EMPTY_ROUNDS
    refresh: int = 0
    train_scores: bool = False
    fleet: Fleet | None = None
    deadline_s: float = 0.0
    evaluate_first: bool = False
    diagnose: bool = False
    asynchronous: AsynchronousRounds | None = None
    check_wire: int = 0

    def __post_init__(self) -> None:
        for name in ("rounds", "eval_every", "checkpoint_every", "workers", "stop_after", "max_empty_rounds"):
            if getattr(self, name) is not None and getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)}; expected {name} >= 1")
        if self.check_wire < 0:
            raise ValueError(f"check_wire={self.check_wire}; expected check_wire >= 0")
        if self.values not in FORMATS:
            raise ValueError(f"values={self.values}; expected one of {', '.join(FORMATS)}")
