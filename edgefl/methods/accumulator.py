"""Accumulator: the running sums of the accepted replies of one round. aggregation.py decides which mean they give."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from edgefl.methods.aggregation import MEAN, AggregationRule
from edgefl.methods.fixed_point import RoundingName
from edgefl.methods.task import MODEL
from edgefl.methods.weighted_mean import Mean
from edgefl.models.graph import Params
from edgefl.models.neurons.mask import Mask
from edgefl.models.neurons.model_spec import ModelSpec
from edgefl.models.neurons.neuron_set import NeuronSet


class Accumulator:
    """The sums of the accepted replies of one open round, which are discarded when the round closes.

    mean      sums of the payload MODEL
    spec      specification of the model
    masks     masks that clients sent, by client
    neurons   neurons that clients chose, by client
    metrics   metrics of replies, by client, as far as the method notes them
    reported  ids of the clients that replied, as far as the method notes them
    stopped   ids of the clients that stopped in this round, as far as the method notes them
    """

    def __init__(
        self,
        spec: ModelSpec,
        aggregation: AggregationRule = MEAN,
        old: Mapping[str, Params] | None = None,
        seed: int = 0,
        round: int = 0,
        factors: Mapping[int, float] | None = None,
    ) -> None:
        """Start with empty sums.

        spec         specification of the model
        aggregation  mean that is taken
        old          values before the round by payload, which some means need. A payload that is not in `old` carries
                     changes
        seed, round  seed of the run and number of the round, by which some means round
        factors      by client, the factor of its weight, 1 for a client without a factor
        """
        self.spec, self._aggregation, self._old = spec, aggregation, old or {}
        self._seed, self._round, self._factors = seed, round, factors or {}
        self._others: dict[str, Mean] = {}
        self.mean = self._new(MODEL)
        self.masks: dict[int, Mask] = {}
        self.neurons: dict[int, NeuronSet] = {}
        self.metrics: dict[int, Mapping[str, float]] = {}
        self.reported: list[int] = []
        self.stopped: list[int] = []
        self._clipped_before = 0

    def of(self, payload: str) -> Mean:
        """Return the sums of a payload."""
        if payload == MODEL:
            return self.mean
        if payload not in self._others:
            self._others[payload] = self._new(payload)
        return self._others[payload]

    @property
    def clipped(self) -> int | None:
        """The number of values that the means clipped, or None if no mean clips."""
        found = [mean.clipped for mean in (self.mean, *self._others.values()) if mean.clipped is not None]
        return sum(found) + self._clipped_before if found else None

    def count_clipped(self, values: int) -> None:
        """Note that values were clipped before they came into the sums."""
        self._clipped_before += values

    def settle(self) -> None:
        """Close the sums: every reply has been added, and the means may be read."""
        for mean in (self.mean, *self._others.values()):
            mean.settle()

    def _new(self, payload: str) -> Mean:
        """Return empty sums over the parameters that the payload had before the round, or over all if these are not
        known.
        """
        old = self._old.get(payload, {})
        params = {name: param for name, param in self.spec.params.items() if not old or name in old}
        name = RoundingName(self._seed, self._round, payload)
        mean = self._aggregation.mean(replace(self.spec, params=params), old, name)
        mean.factors = self._factors
        return mean
