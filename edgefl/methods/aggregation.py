"""The choice of the mean that the server takes of the replies: a setting of a run by name, and the object that computes
the mean.

Not the means (weighted_mean.py, robust_mean.py) nor what is done to a reply before it is aggregated
(rounds/change_bound.py), where `clipped` cuts changes to their median length; what follows is the weighted mean.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from edgefl.methods.robust_mean import TrimmedMean
from edgefl.methods.weighted_mean import Mean

if TYPE_CHECKING:
    from edgefl.models.graph import Params
    from edgefl.models.neurons.model_spec import ModelSpec

AGGREGATIONS = "mean, clipped, trimmed:K or median"


@dataclass(frozen=True)
class AggregationRule:
    """trim  of `trimmed`: how many of the largest and of the smallest values of a coordinate are left out"""

    kind: Literal["mean", "clipped", "trimmed", "median"] = "mean"
    trim: int = 0

    @staticmethod
    def parse(text: str) -> AggregationRule:
        """The rule of that name. Raises ValueError for another."""
        kind, colon, number = text.partition(":")
        if kind == "trimmed" and number.isdecimal() and len(number) < 10 and int(number) > 0:
            return AggregationRule("trimmed", int(number))
        if colon or kind not in ("mean", "clipped", "median"):
            raise ValueError(f"aggregation={text}; expected {AGGREGATIONS} with K >= 1")
        return AggregationRule(kind)  # type: ignore[arg-type]

    @property
    def fewest(self) -> int:
        """Replies of a round with which it does what it is for."""
        return {"trimmed": 2 * self.trim + 1, "median": 3}.get(self.kind, 1)

    def mean(self, spec: ModelSpec, old: Params) -> Mean:
        """The mean of one payload in one round. `old`: its values before the round; payloads that carry changes have no
        old values.
        """
        if self.kind == "trimmed":
            return TrimmedMean(spec, old, self.trim)
        return TrimmedMean(spec, old, None) if self.kind == "median" else Mean(spec)


MEAN = AggregationRule()
