"""Fine-tuning before a client's test, as a setting of every method that tests the model of all clients.

This module is not a method. The fine-tuning changes no round: neither its bits nor its bytes nor its seconds. The
fine-tuned model is neither kept nor sent. Its work is counted apart from the rounds (rounds/adaptation.py).

Source  ALGORITHMS 7.18
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from edgefl.learning.fit_options import FitOptions
from edgefl.methods.algorithm import Scored
from edgefl.methods.client_state import ClientState, OwnModel, passes
from edgefl.methods.local_steps import LocalTraining
from edgefl.methods.option_checks import check
from edgefl.methods.task import MODEL
from edgefl.models.graph import Params
from edgefl.models.neurons.model_spec import ModelSpec, layer_of

TunedPart = Literal["full", "body", "head"]


@dataclass(frozen=True)
class FineTuning(LocalTraining):
    """The settings of the fine-tuning of the common model on a client's training samples before the client's test.

    ft       passes of the fine-tuning over the client's training samples. 0: the common model is tested as it is
    ft_part  part of the model that is fine-tuned: 'full', 'body' or 'head'
    ft_lr    learning rate of the fine-tuning. 0 stands for `lr`, which does not decay here
    """

    ft: int = 0
    ft_part: TunedPart = "full"
    ft_lr: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check(self.ft >= 0, "ft", self.ft, "ft >= 0")
        check(0 <= self.ft_lr < float("inf"), "ft_lr", self.ft_lr, "a finite ft_lr >= 0")
        is_common = not (self.keeps_model or self.adapts)
        check(is_common or not self.ft, "ft", self.ft, f"0: {self.name} tests models of the clients' own, and ft "
              "adapts a model of all clients, as in fedavg:ft=1")  # fmt: skip

    def scored(self, parts: Collection[str]) -> Scored | None:
        return "adapted" if self.ft else super().scored(parts)

    def shared(self, arrays: Mapping[str, Params]) -> Params | None:
        return arrays.get(MODEL) if self.ft else super().shared(arrays)

    def adaptation(self, examples: int) -> tuple[int, int]:
        return passes(examples, self.ft, self.batch)

    @contextmanager
    def own(self, client_state: ClientState, shared: Params | None) -> Iterator[OwnModel]:
        """Yield the common model after the fine-tuning, or what the learner holds if nothing is fine-tuned."""
        mine = OwnModel(client_state.learner, client_state.data)
        if self.ft:
            assert shared is not None
            client_state.learner.write(shared)
            options = FitOptions(trainable=part_layers(self.ft_part, client_state.spec))
            self.refit(mine, client_state, self.ft, self.batch, self.ft_lr, options)
        yield mine


def part_layers(part: TunedPart, spec: ModelSpec) -> frozenset[str] | None:
    """Return the names of the layers of a part of the model, or None for all layers."""
    names = {"full": None, "body": spec.body, "head": spec.head}[part]
    return None if names is None else frozenset(map(layer_of, names))
