"""The expected content of a reply, where it differs from the content of the plan. exchange.py checks the reply."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from edgefl.models.neurons.mask import Mask

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
    counts  for 'mask': number of coordinates that the mask must have of each parameter, which is not sent. None: any
    """

    kind: Kind
    names: tuple[str, ...] | None = None
    mask: Mask | None = field(default=None, compare=False)
    counts: Mapping[str, int] | None = field(default=None, compare=False)
