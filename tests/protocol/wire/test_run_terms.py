"""The name of a run in secure aggregation follows from everything that its devices are told (wire/run_terms.py)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from edgefl.protocol.wire.messages import Welcome
from edgefl.protocol.wire.run_terms import named_run
from tests.protocol.wire.conversation import WELCOME

OTHERS: dict[str, Any] = {
    "clients": WELCOME.clients + 1,
    "seed": WELCOME.seed + 1,
    "method": "fedprox",
    "options": {**WELCOME.options, "lr": 0.123},
    "values": "float16",
    "shares": (0.5, 0.2),
    "model_bytes": WELCOME.model_bytes + 1,
    "model_digest": bytes(32),
    "loss": "another loss",
}


def test_clients_have_one_name_whatever_the_order_of_the_options() -> None:
    turned = dict(reversed(WELCOME.options.items()))
    for other in (msgspec.structs.replace(WELCOME, client=7), msgspec.structs.replace(WELCOME, options=turned)):
        assert named_run("run", other) == named_run("run", WELCOME)
    assert named_run("run", WELCOME) != named_run("another", WELCOME)


def test_every_field_is_tried() -> None:
    assert OTHERS.keys() | {"client"} == set(Welcome.__struct_fields__)


@pytest.mark.parametrize("field", OTHERS)
def test_a_device_that_is_told_something_else_has_another_name(field: str) -> None:
    other = msgspec.structs.replace(WELCOME, **{field: OTHERS[field]})
    assert other != WELCOME
    assert named_run("run", other) != named_run("run", WELCOME)
