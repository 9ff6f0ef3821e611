"""Extents that no memory holds are refused by the C ABI, and nothing is read or written.

A product that wraps around 64 bits would pass for a small one. Every function of edgefl.h that takes extents is tried.
test_abi.py has the results for sound extents.
"""

from __future__ import annotations

import re
from typing import Any

import pytest

from edgefl.kernels.table import TABLE

from .abi import LIBRARY, load

pytest.importorskip("cffi", reason="cffi is in the test extra")
pytestmark = pytest.mark.skipif(not LIBRARY.exists(), reason="libedgefl.so was not built (no C++ compiler)")

MOST = 2**54
BYTES = 4096
WITHOUT = {
    "conv2d_forward", "conv2d_grad_input", "conv2d_int8", "maxpool_forward", "avgpool_forward",
    "groupnorm_lanes_forward", "groupnorm_lanes_backward", "clip_scale", "begin_adam", "fill_zero", "pad_planes",
    "crop_planes", "upsample_forward", "upsample_backward", "adaptive_avgpool_forward", "dropout", "count_step",
    "gru_forward", "gru_backward", "rnn_forward", "rnn_backward", "resample_forward", "resample_backward",
    "lstm_forward", "lstm_backward", "attention_forward", "attention_backward", "sdpa_forward", "sdpa_backward",
}  # fmt: skip
# Operations that take a geometry and no further extent, or one number, or are not in the C ABI.

# Extents of arrays apart, which are not multiplied with each other.
APART = {
    "efl_gather_labels", "efl_keep_largest_f32", "efl_largest_places_f32", "efl_take_flat_32", "efl_put_flat_32",
    "efl_encode_mask", "efl_decode_mask",
}  # fmt: skip
# These give the words of a structure, or -1.
NO_STATUS = {"efl_sparse_linear_words", "efl_sparse_conv2d_words"}
AXIS = ("kernel_h", "kernel_w", "stride_h", "stride_w", "pad_h", "pad_w")
WINDOWS = [
    *({field: 2**62} for field in ("height", "width", *AXIS)),
    *({field: 2**63 - 1} for field in ("height", "width", *AXIS)),
    {"height": 2**32, "width": 2**32},
    {"stride_h": 2**40, "stride_w": 2**40},
    {"kernel_h": 2**31, "kernel_w": 2**31, "pad_h": 2**30, "pad_w": 2**30},
]
CONVOLUTIONS = [
    *WINDOWS,
    *({field: 2**62} for field in ("batch", "in_channels", "out_channels", "dil_h", "dil_w")),
    {"batch": 2**32, "in_channels": 2**32},
    {"in_channels": 2**32, "out_channels": 2**32},
    {"pad_h": 2**30, "pad_w": 2**30},
    {"pad_h": 2**62 + 1, "kernel_h": 3},
    {"height": 8, "kernel_h": 5, "dil_h": 2**62},
    {"height": 8, "kernel_h": 3, "dil_h": 2**63 - 1},
]
POOLS = [
    *WINDOWS,
    {"planes": 2**62},
    {"planes": 2**32, "height": 2**32},
    {"kernel_h": 2**62, "pad_h": 2**61},
]


class Calls:
    """Calls by name: every buffer a block of zeros, every extent 1 unless given, every index all."""

    def __init__(self) -> None:
        self.ffi, self.lib = load()
        self.memory = self.ffi.new("char[]", BYTES)
        self.extent = self.ffi.typeof("efl_int64")

    def arguments(self, name: str) -> list[Any]:
        return list(self.ffi.typeof(getattr(self.lib, name)).args)

    def kernels(self) -> dict[str, int]:
        """Return how many extents each function takes, for the functions that take any."""
        library = {"efl_count_scratch", "efl_scratch_bytes", *NO_STATUS}
        functions = [name for name in dir(self.lib) if name.startswith("efl_") and name not in library]
        counts = {name: self.arguments(name).count(self.extent) for name in functions}
        return {name: count for name, count in counts.items() if count}

    def geometry(self, kind: str, **values: int) -> Any:
        fields = [name for name, _ in self.ffi.typeof(kind).fields]
        plain = {name: 0 if name.startswith(("pad", "count")) else 1 for name in fields}
        return self.ffi.new(f"{kind} *", {**plain, **values})

    def status(self, name: str, *extents: int, geometry: Any = None, index: Any = None) -> int:
        given = iter(extents)
        if geometry is None:
            geometry = self.geometry("efl_conv2d" if "conv2d" in name else "efl_pool2d")

        def argument(kind: Any) -> Any:
            if kind.kind == "struct":
                return (index or self.ffi.new("efl_index *"))[0]
            if kind.kind == "pointer":
                return geometry if kind.item is self.ffi.typeof(geometry).item else self.ffi.cast(kind, self.memory)
            return next(given, 1) if kind is self.extent else 1

        return getattr(self.lib, name)(*map(argument, self.arguments(name)))

    def untouched(self) -> bool:
        return not any(self.ffi.buffer(self.memory)[:])


@pytest.fixture(scope="module")
def calls():
    return Calls()


def refused(calls, name, *extents, **options):
    """Return whether a call is refused for its extents. Groups that do not divide the channels are a bad argument."""
    return calls.status(name, *extents, **options) in (calls.lib.EFL_BAD_SHAPE, calls.lib.EFL_BAD_ARGUMENT)


def test_every_function_that_takes_extents_is_tried(calls):
    assert {re.sub("^efl_|(_f32|_u8|_32)$", "", name) for name in calls.kernels()} == set(TABLE) - WITHOUT
    assert set(calls.kernels()) >= APART


@pytest.mark.parametrize("extent", [MOST + 1, 2**62, 2**63 - 1, -1], ids=["2^54 + 1", "2^62", "2^63 - 1", "-1"])
def test_each_extent_alone_is_refused(calls, extent):
    for name, count in calls.kernels().items():
        for position in range(count):
            extents = [extent if i == position else 1 for i in range(count)]
            assert refused(calls, name, *extents), f"{name}{tuple(extents)}"
    assert calls.untouched()


@pytest.mark.parametrize("extent", [2**28, 2**32, 2**48], ids=["2^28", "2^32", "2^48"])
def test_extents_that_multiply_to_too_much_are_a_bad_shape(calls, extent):
    for name, count in calls.kernels().items():
        if count > 1 and name not in APART:
            assert calls.status(name, *[extent] * count) == calls.lib.EFL_BAD_SHAPE, name
    assert calls.untouched()


ROOMS = [
    *({field: 2**62} for field in ("planes", "height", "width", "top", "left", "out_height", "out_width")),
    {"top": -1},
    {"left": 2**63 - 1},
    {"height": 2},
    {"width": 3, "out_width": 2},
    {"planes": 2**32, "out_height": 2**32},
]
SCALINGS = [
    *({field: 2**62} for field in ("planes", "height", "width", "scale_h", "scale_w")),
    {"scale_w": 0},
    {"scale_h": -1},
    {"height": 2**30, "scale_h": 2**30},
]


ADAPTIVE = [
    *({field: extent} for field in ("height", "width", "out_height", "out_width") for extent in (2**62, 0, -1)),
    {"planes": 2**62},
    {"planes": 2**32, "height": 2**32},
]
RESAMPLED = [
    *({field: extent} for field in ("planes", "height", "width", "out_height", "out_width") for extent in (2**62, -1)),
    *({field: extent} for field in ("height", "width", "out_height", "out_width") for extent in (2**30 + 1, 0)),
    *({"mode": mode} for mode in (-1, 6)),
    *({"mode": 2, field: extent} for field in ("top", "left") for extent in (-1, 1, 2**62)),
    {"mode": 3, "height": 2},
    {"mode": 2, "out_height": 2},
    {"mode": 4, "out_width": 3},
    {"mode": 5, "out_width": 2},
    {"planes": 2**32, "height": 2**30},
]
DROPPED = [
    *({field: extent} for field in ("batch", "channels", "inner") for extent in (2**62, -1)),
    {"batch": 2**32, "inner": 2**32},
    *({"node": number} for number in (-1, 2**31)),
    *({"threshold": number} for number in (-1, 2**32)),
]


def test_planes_elsewhere_beyond_memory_are_refused(calls):
    for names, kind, cases in (
        (("pad_planes", "crop_planes"), "efl_room", ROOMS),
        (("upsample_forward", "upsample_backward"), "efl_scaling", SCALINGS),
        (("adaptive_avgpool_forward", "adaptive_avgpool_backward"), "efl_adaptive", ADAPTIVE),
        (("resample_forward", "resample_backward"), "efl_resampling", RESAMPLED),
        (("dropout",), "efl_dropout", DROPPED),
    ):
        for name in names:
            for fields in cases:
                corner = {"top": 0, "left": 0, "mode": 0} if kind == "efl_resampling" else {"top": 0, "left": 0}
                geometry = calls.geometry(kind, **(corner if kind in ("efl_room", "efl_resampling") else {}) | fields)
                assert refused(calls, f"efl_{name}_f32", geometry=geometry), (name, fields)
    assert calls.untouched()


RECURRENCES = [
    *({field: extent} for field in ("steps", "batch", "units") for extent in (2**62, -1)),
    {"steps": 2**32, "batch": 2**32},
    {"units": 2**28},
]
ATTENTIONS = [
    *({field: extent} for field in ("batch", "channels", "places") for extent in (2**62, -1)),
    {"places": 2**28},
    {"heads": 0},
    {"heads": 2},
]


SHARED_HEADS = [*ATTENTIONS, {"kv_heads": 0}, {"kv_heads": 2}, {"masks": 2}, {"window": -1}, {"node": -1}]


def test_sequences_beyond_memory_are_refused(calls):
    names = {"efl_recurrence": ("rnn", "gru", "lstm"), "efl_attention": ("attention",), "efl_sdpa": ("sdpa",)}
    every = {"efl_recurrence": RECURRENCES, "efl_attention": ATTENTIONS, "efl_sdpa": SHARED_HEADS}
    for kind, cases in every.items():
        for name in (f"efl_{of}_{way}_f32" for of in names[kind] for way in ("forward", "backward")):
            for fields in cases:
                assert refused(calls, name, geometry=calls.geometry(kind, **fields)), (name, fields)
    assert calls.untouched()


@pytest.mark.parametrize("entry", ["forward", "grad_input", "grad_weight"])
def test_convolution_beyond_memory_is_a_bad_shape(calls, entry):
    for fields in CONVOLUTIONS:
        geometry = calls.geometry("efl_conv2d", **fields)
        assert calls.status(f"efl_conv2d_{entry}_f32", geometry=geometry) == calls.lib.EFL_BAD_SHAPE, fields
    assert calls.untouched()


@pytest.mark.parametrize(
    "entry", ["maxpool_forward", "maxpool_backward", "maxpool_lanes_forward", "avgpool_forward", "avgpool_backward"]
)
def test_pool_beyond_memory_is_refused(calls, entry):
    for fields in [{**each, "ceil_mode": mode} for each in POOLS for mode in (0, 1)]:
        assert refused(calls, f"efl_{entry}_f32", geometry=calls.geometry("efl_pool2d", **fields)), fields
    assert calls.untouched()


def test_images_side_by_side_beyond_memory_are_refused(calls):
    for entry in ("forward", "backward"):
        for fields in (
            *({name: extent} for name in ("batch", "channels", "cells", "lanes") for extent in (2**62, -1)),
            {"batch": 2**32, "cells": 2**32},
            {"lanes": 0},
            {"groups": 2},
        ):
            shape = calls.geometry("efl_norm_lanes", **fields)
            assert refused(calls, f"efl_groupnorm_lanes_{entry}_f32", geometry=shape), fields
    assert calls.untouched()


@pytest.mark.parametrize("entry", ["forward_f32", "grad_input_f32", "grad_weight_f32", "build"])
def test_masked_convolution_beyond_memory_is_a_bad_shape(calls, entry):
    for fields in [*CONVOLUTIONS, {"in_channels": 2**17, "out_channels": 2**17}, {"width": 2**16}]:
        geometry = calls.geometry("efl_conv2d", **fields)
        assert calls.status(f"efl_sparse_conv2d_{entry}", geometry=geometry) == calls.lib.EFL_BAD_SHAPE, fields
        assert calls.lib.efl_sparse_conv2d_words(geometry, 1, 0) == -1
    grouped = calls.geometry("efl_conv2d", in_channels=2, out_channels=2, groups=2)
    assert calls.status(f"efl_sparse_conv2d_{entry}", geometry=grouped) == calls.lib.EFL_BAD_ARGUMENT
    assert calls.untouched()


def test_the_most_that_is_allowed_is_allowed(calls):
    ok, bad = calls.lib.EFL_OK, calls.lib.EFL_BAD_SHAPE
    assert calls.status("efl_take_channels_f32", 0, MOST, 1) == ok
    assert calls.status("efl_take_channels_f32", 0, MOST, 2) == bad
    for channels, expected in ((MOST, ok), (MOST + 1, bad)):
        geometry = calls.geometry("efl_conv2d", batch=0, in_channels=channels)
        assert calls.status("efl_conv2d_forward_f32", geometry=geometry) == expected
    for channels, groups, expected in ((1 << 17, 1, ok), ((1 << 17) + 1, 1, bad), (2, 2, calls.lib.EFL_BAD_ARGUMENT)):
        sizes = {"in_channels": channels, "out_channels": channels, "groups": groups}
        assert calls.status("efl_conv2d_int8_f32", geometry=calls.geometry("efl_conv2d", batch=0, **sizes)) == expected
    assert calls.untouched()


def test_more_ids_than_the_extent_are_refused_unread(calls):
    ids = calls.ffi.new("efl_int32[]", [0])
    index = calls.ffi.new("efl_index *", [ids, 2**40])
    assert calls.status("efl_take_channels_f32", 1, 1, 1, index=index) == calls.lib.EFL_BAD_INDEX
    assert calls.untouched()
