"""The expected content of a reply, where it differs from the content of the plan. exchange.py checks the reply."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from edgefl.models.neurons.mask import Mask

Kind = Literal["planned", "chosen", "masked", "mask"]


@dataclass(frozen=True)
class ExpectedPayload:
    """Of a reply, what goes by one name.

    kind   'planned'  values at the coordinates of the plan: those that it sent by that name, or its selection gives
           'chosen'   values at coordinates or neurons that the client chose; their ids come with them
           'masked'   values at `mask`, without ids: the client has it. Parameters that it does not list are whole
           'mask'     a mask that the client chose, without values
    names  the parameters; None: those that the plan sends by that name, or all of the model if it sends none
    mask   is the server's alone, and not sent, as counts are
    counts of 'mask': how many coordinates it must have of these parameters; None: any number of each
    """

    kind: Kind
    names: tuple[str, ...] | None = None
    mask: Mask | None = field(default=None, compare=False)
    counts: Mapping[str, int] | None = field(default=None, compare=False)
