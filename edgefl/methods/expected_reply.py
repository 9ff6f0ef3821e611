"""The expected content of a reply, where it differs from the content of the plan. exchange.py checks the reply."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from edgefl.models.neurons.mask import Mask
from edgefl.models.neurons.model_spec import ModelSpec

Kind = Literal["planned", "chosen", "masked", "mask"]


@dataclass(frozen=True)
class ExpectedPayload:
    """The expected payload or mask of a reply under one name.

    kind    'planned'  values at the coordinates of the plan: those that it sent by that name, or those of its selection
            'chosen'   values at coordinates or neurons that the client chose, whose ids come with the values
            'masked'   values at `mask`, without ids, because the client has it. Parameters not in `mask` are whole
            'mask'     a mask that the client chose, without values
    names   names of the parameters. None: those that the plan sends by that name, or all of the model if it sends none
    mask    mask of 'masked', which the server alone has and does not send
    counts  for 'mask' and 'chosen': number of coordinates that the reply must have of each parameter. The numbers are
            not sent. None: any number
    """

    kind: Kind
    names: tuple[str, ...] | None = None
    mask: Mask | None = field(default=None, compare=False)
    counts: Mapping[str, int] | None = field(default=None, compare=False)

    def miscounted(self, found: Mask, spec: ModelSpec) -> str:
        """Return words about the first parameter with another number of coordinates than `counts`, or ""."""
        for name, count in (self.counts or {}).items():
            bits = found.bits.get(name)
            size = math.prod(spec.params[name].shape) if bits is None else int(np.count_nonzero(bits))
            if size != count:
                return f"{size} coordinates of {name}; expected {count}"
        return ""
