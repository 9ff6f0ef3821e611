"""A small model and one update per coding, shared by the tests of the codec. Their payloads are in golden/, in hex."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgefl.models.neurons.block_index import Axes, Flat, active_axes, block_shape
from edgefl.models.neurons.mask import Mask
from edgefl.models.neurons.model_spec import AxisSpec, ModelSpec, ParamSpec
from edgefl.models.neurons.neuron_set import NeuronSet
from edgefl.models.neurons.update import Block, Update
from edgefl.rng import sample_ids

GOLDEN = Path(__file__).parent / "golden"
KEY = 0x0123456789ABCDEF
LIMIT = 1 << 20

A, A_TWICE, WIDE, HUGE = AxisSpec("a"), AxisSpec("a", 2), AxisSpec("wide"), AxisSpec("huge")
SPEC = ModelSpec(
    params={
        "a.weight": ParamSpec((6, 2), "learn", A),
        "a.bias": ParamSpec((6,), "learn", A),
        "b.weight": ParamSpec((3, 12), "learn", None, A_TWICE),
        "wide.bias": ParamSpec((300,), "learn", WIDE),
        "huge.bias": ParamSpec((70000,), "learn", HUGE),
    },
    groups={"a": 6, "wide": 300, "huge": 70000},
    fingerprint=bytes(range(16)),
)
ACTIVE = {
    "a": np.array([0, 2], np.int32),
    "wide": np.array([1, 2, 258], np.int32),
    "huge": np.array([65536], np.int32),
}
NEURON_SET = NeuronSet.of(SPEC, ACTIVE)
ONES = {"b.weight": (0, 9, 35), "wide.bias": (5, 299), "huge.bias": (69999,)}  # of MASK


def bits(name: str, *coordinates: int) -> NDArray[np.bool_]:
    """Return the bits of a parameter, true at these coordinates."""
    found = np.zeros(SPEC.params[name].shape, np.bool_)
    found.reshape(-1)[list(coordinates)] = True
    return found


MASK = Mask.of(SPEC, {name: bits(name, *ones) for name, ones in ONES.items()})


def block(name: str, index: Axes | Flat | None, first: float = 1.0) -> Block:
    """Values first, first + 1, ..."""
    shape = block_shape(SPEC.params[name].shape, index)
    return Block(
        SPEC.params[name].shape, index, np.arange(first, first + np.prod(shape), dtype=np.float32).reshape(shape)
    )


def active(*names: str, **keys: int) -> Update:
    """Return axes blocks of these parameters under ACTIVE. A group with a key has a third of its ids, drawn with the
    key.
    """
    ids = {
        **ACTIVE,
        **{group: sample_ids(key, SPEC.groups[group], SPEC.groups[group] // 3) for group, key in keys.items()},
    }
    return Update({name: block(name, active_axes(SPEC.params[name], SPEC, ids, keys)) for name in names})


def flat(name: str, *coordinates: int) -> Update:
    size = int(np.prod(SPEC.params[name].shape))
    return Update({name: block(name, Flat(np.array(coordinates, np.uint32), size))})


EXAMPLES: dict[str, tuple[Update, str, NeuronSet | Mask | None]] = {
    "nothing": (Update({}), "float32", None),
    "dense": (Update({"a.bias": block("a.bias", None, -2.5)}), "float32", None),
    "dense_float16": (Update({"a.bias": block("a.bias", None, -2.5)}), "float16", None),
    "dense_bfloat16": (Update({"a.bias": block("a.bias", None, -2.5)}), "bfloat16", None),
    "dense_int8": (Update({"a.bias": block("a.bias", None, 122.0)}), "int8", None),
    "axes_bitmap": (active("a.weight", "a.bias", "b.weight"), "float32", None),
    "axes_list16": (active("wide.bias"), "float32", None),
    "axes_list32": (active("huge.bias"), "float32", None),
    "axes_seed": (active("wide.bias", wide=KEY), "float16", None),
    "axes_known": (active("a.weight", "wide.bias"), "float32", NEURON_SET),
    "flat_bitmap": (flat("b.weight", 0, 9, 35), "float32", None),
    "flat_list16": (flat("wide.bias", 5, 299), "float32", None),
    "flat_list32": (flat("huge.bias", 69999), "float32", None),
    "flat_coded": (flat("wide.bias", *range(0, 300, 10)), "float16", None),
    "masked": (
        Update({**flat("b.weight", 0, 9, 35).blocks, **flat("wide.bias", 7).blocks, "a.bias": block("a.bias", None)}),
        "float32",
        MASK,
    ),
    "mixed": (
        Update(
            {**active("huge.bias", "a.bias").blocks, **flat("wide.bias", 7).blocks, "b.weight": block("b.weight", None)}
        ),
        "float16",
        None,
    ),
}


def golden(name: str) -> bytes:
    """A hex file: bytes in hexadecimal, with comments from # to the end of the line."""
    lines = (GOLDEN / f"{name}.hex").read_text().splitlines()
    return bytes.fromhex("".join(line.split("#")[0] for line in lines))
