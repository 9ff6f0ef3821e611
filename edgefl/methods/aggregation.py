"""The choice of the mean that the server takes of the replies: a setting of a run by name, and the maker of the mean.

The means are in weighted_mean.py, exact_mean.py and robust_mean.py. The module rounds/change_bound.py changes replies
before they are aggregated. For `clipped` it cuts changes to their median length, and the weighted mean follows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from edgefl.methods.exact_mean import ExactMean
from edgefl.methods.fixed_point import RoundingName
from edgefl.methods.robust_mean import TrimmedMean
from edgefl.methods.weighted_mean import Mean

if TYPE_CHECKING:
    from edgefl.models.graph import Params
    from edgefl.models.neurons.model_spec import ModelSpec

AGGREGATIONS = "mean, exact, clipped, trimmed:K or median"


@dataclass(frozen=True)
class AggregationRule:
    """The rule by which the server aggregates replies.

    kind  name of the mean
    trim  number of the largest, and of the smallest, values of a coordinate that `trimmed` leaves out
    """

    kind: Literal["mean", "exact", "clipped", "trimmed", "median"] = "mean"
    trim: int = 0

    @staticmethod
    def parse(text: str) -> AggregationRule:
        """Return the rule that a text names. Raises ValueError for any other text."""
        kind, colon, number = text.partition(":")
        if kind == "trimmed" and number.isdecimal() and len(number) < 10 and int(number) > 0:
            return AggregationRule("trimmed", int(number))
        if colon or kind not in ("mean", "exact", "clipped", "median"):
            raise ValueError(f"aggregation={text}; expected {AGGREGATIONS} with K >= 1")
        return AggregationRule(kind)  # type: ignore[arg-type]

    @property
    def fewest(self) -> int:
        """The smallest number of replies of a round with which the rule has its effect."""
        return {"trimmed": 2 * self.trim + 1, "median": 3}.get(self.kind, 1)

    def mean(self, spec: ModelSpec, old: Params, name: RoundingName) -> Mean:
        """Return the empty mean of one payload in one round.

        `old` has the payload's values before the round. A payload that carries changes has no old values. `name` says
        how the changes of this payload are rounded, if the rule rounds them.
        """
        if self.kind == "exact":
            return ExactMean(spec, old, name)
        if self.kind == "trimmed":
            return TrimmedMean(spec, old, self.trim)
        return TrimmedMean(spec, old, None) if self.kind == "median" else Mean(spec)


MEAN = AggregationRule()
