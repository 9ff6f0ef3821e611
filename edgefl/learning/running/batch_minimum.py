"""The treatment of batches of one example in a model that normalises over single values. Nothing runs here.

A batch of one example joins the batch before it. Where no batch comes before it, the fit is refused.
"""

from __future__ import annotations

from edgefl.errors import TrainingError
from edgefl.learning.batches import joined, occurring
from edgefl.learning.learner import Batches
from edgefl.models.graph.single_value_norm import LEAST_BATCH


def trainable_batches(batches: Batches, norm: str) -> Batches:
    """Return the batches that a fit takes its steps on.

    norm    name of the layer that normalises over single values. "" stands for a model without such a layer, whose
            batches stay as they are
    Raises  TrainingError if a batch of one example is left
    """
    if not norm or not len(batches):
        return batches
    found = joined(batches)
    if min(occurring(found)[1]) < LEAST_BATCH:
        raise TrainingError(
            f"a batch of 1 sample; the batch normalisation {norm!r} sees 1 value per channel in a sample, so expected "
            f"batches of at least {LEAST_BATCH} samples, or a model without BatchNorm"
        )
    return found
