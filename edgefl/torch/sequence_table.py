"""The graph operations for torch's recurrent layers, attention and Transformer encoders. Nothing is traced here.

SEQUENCES are modules that read a sequence and return several results. An entry reads a module and the arguments of its
call. UNFOLDED are modules made of other modules, whose forward has branches that cannot be traced. An entry is a
forward without these branches, which computes the same result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.fx import Node as Traced

from edgefl.errors import GraphError
from edgefl.models.graph.operations import GRU, LSTM, RNN, Linear, Operation, SelfAttention
from edgefl.torch.axis_order import Layout, last, time_first
from edgefl.torch.traced_call import expect
from edgefl.torch.zero_state import is_zero_state


class SequenceCall(NamedTuple):
    """A call on a sequence.

    source   traced input of the call
    ops      operations one after another, each with the suffix of its node's name after the module's name
    layout   torch's axes of the input and of the result
    has_end  whether the second result is the last state
    nested   whether the last state is the first of several states
    """

    source: Traced
    ops: tuple[tuple[str, Operation], ...]
    layout: Layout
    has_end: bool = False
    nested: bool = False


def _layout(module: nn.Module) -> Layout:
    return last if module.batch_first else time_first


def _recurrent(module: nn.RNN | nn.GRU | nn.LSTM, input: Any, hx: Any = None) -> SequenceCall:
    if module.num_layers != 1:
        raise GraphError(f"num_layers={module.num_layers}; expected 1: write several layers, one after another")
    expect("bidirectional", module.bidirectional, False)
    expect("proj_size", module.proj_size, 0)
    if not is_zero_state(hx):
        raise GraphError(
            "an initial state; expected no state, or torch.zeros that forward makes: the state starts at 0"
        )
    is_lstm = isinstance(module, nn.LSTM)
    settings = (module.input_size, module.hidden_size, bool(module.bias))
    op: Operation = (LSTM if is_lstm else GRU)(*settings)
    if isinstance(module, nn.RNN):
        op = RNN(*settings, module.nonlinearity == "relu")
    return SequenceCall(input, (("", op),), _layout(module), has_end=True, nested=is_lstm)


def _attention(
    module: nn.MultiheadAttention,
    query: Any,
    key: Any,
    value: Any,
    key_padding_mask: Any = None,
    need_weights: bool = True,
    attn_mask: Any = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> SequenceCall:
    if not query is key is value:
        raise GraphError("query, key and value differ; expected one tensor for all three, as in self-attention")
    if key_padding_mask is not None:
        raise GraphError("key_padding_mask is given; expected None: sequences have one length")
    expect("kdim and vdim equal embed_dim", module._qkv_same_embed_dim, True)
    expect("add_bias_kv", module.bias_k is not None, False)
    expect("add_zero_attn", module.add_zero_attn, False)
    if module.dropout and module.training:
        raise GraphError(f"dropout={module.dropout} of attention's shares; expected 0 (its attribute dropout)")
    size, has_bias = module.embed_dim, module.in_proj_bias is not None
    heads = SelfAttention(size, module.num_heads, module.head_dim, is_causal_mask(attn_mask), has_bias)
    out = Linear(size, size, module.out_proj.bias is not None)
    return SequenceCall(query, (("", heads), (".out_proj", out)), _layout(module))


def is_causal_mask(mask: Any) -> bool:
    """Return True if a mask of attention leaves out all later steps, and False if it leaves out nothing.

    Raises  GraphError for every other mask.
    """
    if mask is None:
        return False
    if not isinstance(mask, Tensor):
        raise GraphError("attn_mask is computed from the input; expected a constant")
    left_out = mask if mask.dtype == torch.bool else mask == -torch.inf
    is_bare = mask.dtype == torch.bool or not bool((mask[~left_out] != 0).any())
    if is_bare and not left_out.any():
        return False
    later = torch.ones_like(left_out).triu(1)
    if not is_bare or mask.dim() != 2 or not torch.equal(left_out, later):
        raise GraphError(f"attn_mask of shape {tuple(mask.shape)}; expected no mask, or a causal mask")
    return True


SEQUENCES: dict[type[nn.Module], Callable[..., SequenceCall]] = {
    nn.RNN: _recurrent,
    nn.GRU: _recurrent,
    nn.LSTM: _recurrent,
    nn.MultiheadAttention: _attention,
}


def _encoder_layer(
    layer: nn.TransformerEncoderLayer,
    src: Any,
    src_mask: Any = None,
    src_key_padding_mask: Any = None,
    is_causal: bool = False,
) -> Any:
    _expect_no_padding(src_key_padding_mask)

    def attended(x: Any) -> Any:
        return layer.dropout1(layer.self_attn(x, x, x, attn_mask=src_mask, need_weights=False)[0])

    def fed(x: Any) -> Any:
        return layer.dropout2(layer.linear2(layer.dropout(layer.activation(layer.linear1(x)))))

    if layer.norm_first:
        x = src + attended(layer.norm1(src))
        return x + fed(layer.norm2(x))
    x = layer.norm1(src + attended(src))
    return layer.norm2(x + fed(x))


def _encoder(
    encoder: nn.TransformerEncoder,
    src: Any,
    mask: Any = None,
    src_key_padding_mask: Any = None,
    is_causal: bool | None = None,
) -> Any:
    _expect_no_padding(src_key_padding_mask)
    for layer in encoder.layers:
        src = layer(src, src_mask=mask)
    return src if encoder.norm is None else encoder.norm(src)


def _expect_no_padding(mask: Any) -> None:
    if mask is not None:
        raise GraphError("src_key_padding_mask is given; expected None: sequences have one length")


UNFOLDED: dict[type[nn.Module], Callable[..., Any]] = {
    nn.TransformerEncoderLayer: _encoder_layer,
    nn.TransformerEncoder: _encoder,
}
