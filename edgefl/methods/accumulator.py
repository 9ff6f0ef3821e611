"""Accumulator: the running sums of the accepted replies of one round. Which mean they give is aggregation.py's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from edgefl.methods.aggregation import MEAN, AggregationRule
from edgefl.methods.task import MODEL
from edgefl.methods.weighted_mean import Mean
from edgefl.models.graph import Params
from edgefl.models.neurons.mask import Mask
from edgefl.models.neurons.model_spec import ModelSpec


class Accumulator:
    """The sums of the accepted replies of one open round, which are discarded when the round closes.

    masks  masks that clients sent, by client
    """

    def __init__(
        self, spec: ModelSpec, aggregation: AggregationRule = MEAN, old: Mapping[str, Params] | None = None
    ) -> None:
        """Start with empty sums.

        spec         specification of the model
        aggregation  mean that is taken
        old          values before the round by payload, which some means need; a payload that is not in `old` carries
                     changes
        """
        self._spec, self._aggregation, self._old = spec, aggregation, old or {}
        self._others: dict[str, Mean] = {}
        self.mean = self._new(MODEL)
        self.masks: dict[int, Mask] = {}
        self.reported: list[int] = []
        self.stopped: list[int] = []

    def of(self, payload: str) -> Mean:
        """The sums of a payload other than the model."""
        if payload not in self._others:
            self._others[payload] = self._new(payload)
        return self._others[payload]

    def settle(self) -> None:
        """Close the sums: every reply has been added, and the means may be read."""
        for mean in (self.mean, *self._others.values()):
            mean.settle()

    def _new(self, payload: str) -> Mean:
        """Over the parameters that the payload had before the round; over all where that is not known."""
        old = self._old.get(payload, {})
        params = {name: param for name, param in self._spec.params.items() if not old or name in old}
        return self._aggregation.mean(replace(self._spec, params=params), old)
