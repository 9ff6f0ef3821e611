"""Attention whose heads may share keys and values, forward and backward: csrc/cuda/sdpa.cuh."""

from __future__ import annotations

from typing import Any

from .launch import Ids, KernelArray, Launches, PlannedLaunch, Scratch, StructValues, launch, struct_values
from .structs import declare

declare(
    {
        # A head has `size` channels.
        "sdpa::Heads": ("heads kv_heads masks size places window node threshold is_causal scale:real keep_scale:real"),
        "sdpa_forward": "qkv bias state y lse h:sdpa::Heads count",
        "sdpa::BackwardArgs: sdpa_{queries,keys} of sdpa_backward": (
            # The totals [batch, heads, places] are sums of shares times their slopes.
            "dy qkv bias state lse dqkv totals:float[]! h:sdpa::Heads needed:Ids count"
        ),
        "sdpa::BiasArgs: sdpa_bias of sdpa_backward": (
            "dy qkv bias state lse dbias totals:float[] h:sdpa::Heads batch count"
        ),
    }
)

FLOAT = 4  # bytes


def sdpa_forward(
    qkv: KernelArray, bias: KernelArray | None, state: KernelArray | None, heads: int, kv_heads: int, masks: int,
    causal: bool, window: int, scale: float, node: int, threshold: int, keep_scale: float, y: KernelArray,
    lse: KernelArray | None,
) -> Launches:  # fmt: skip
    settings = _heads(y, heads, kv_heads, masks, causal, window, scale, node, threshold, keep_scale)
    count = y.shape[0] * heads * y.shape[2]
    return [launch("sdpa_forward", count, qkv=qkv, bias=bias, state=state, y=y, lse=lse, h=settings, count=count)]


def sdpa_backward(
    dy: KernelArray, qkv: KernelArray, bias: KernelArray | None, state: KernelArray | None, lse: KernelArray,
    heads: int, kv_heads: int, masks: int, causal: bool, window: int, scale: float, node: int, threshold: int,
    keep_scale: float, dqkv: KernelArray, dbias: KernelArray | None, kv_needed: KernelArray | None,
) -> Launches:  # fmt: skip
    settings = _heads(dy, heads, kv_heads, masks, causal, window, scale, node, threshold, keep_scale)
    needed, batch, places = Ids.of(kv_needed, kv_heads), dy.shape[0], dy.shape[2]
    totals = Scratch(0, FLOAT * batch * heads * places)
    given: dict[str, Any] = {"dy": dy, "qkv": qkv, "bias": bias, "state": state, "lse": lse, "totals": totals}
    given["h"] = settings

    def back(kernel: str, count: int) -> PlannedLaunch:
        return launch(kernel, count, **given, dqkv=dqkv, needed=needed, count=count)

    count = batch * needed.count * places
    found = [back("sdpa_queries", count * (heads // kv_heads)), back("sdpa_keys", count)]
    if dbias is not None:
        work = masks * places * places
        found.append(launch("sdpa_bias", work, **given, dbias=dbias, batch=batch, count=work))
    return found


def _heads(
    y: KernelArray, heads: int, kv_heads: int, masks: int, causal: bool, window: int, scale: float, node: int,
    threshold: int, keep_scale: float,
) -> StructValues:  # fmt: skip
    extents = {"heads": heads, "kv_heads": kv_heads, "masks": masks, "size": y.shape[1] // heads, "places": y.shape[2]}
    stream = {"node": node, "threshold": threshold, "keep_scale": keep_scale}
    return struct_values("sdpa::Heads", **extents, **stream, window=window, is_causal=causal, scale=scale)
