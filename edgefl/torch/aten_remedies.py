"""The replacements of operations of torch that edgefl does not have, by the name of the ATen operation."""

from __future__ import annotations

REMEDIES: dict[str, str] = {
    "scaled_dot_product_attention": "write nn.MultiheadAttention(..., dropout=0.0) on one tensor",
    "bmm": "write nn.MultiheadAttention for attention",
    "wrap_with_set_grad_enabled": "set requires_grad=False on the parameters, and write no torch.no_grad in forward",
    "detach": "set requires_grad=False on the parameters that are not to be trained",
    "upsample_bicubic2d": "write F.interpolate(mode='bilinear')",
    "upsample_trilinear3d": "write F.interpolate(mode='bilinear') on planes",
    "rand_like": "write nn.Dropout, or leave the noise to the data",
    "randn": "write torch.randn_like, or leave the noise to the data",
    "rand": "write nn.Dropout, or leave the noise to the data",
    "bernoulli": "write nn.Dropout, nn.Dropout1d, nn.Dropout2d or stochastic depth by examples",
    "alpha_dropout": "write nn.Dropout",
    "celu": "write nn.ELU",
    "selu": "write nn.ELU",
    "conv3d": "write nn.Conv2d on planes",
    "pow": "write a layer that edgefl has, because squares and roots of results have no operation",
    "exp": "leave the exponential to the loss",
}
"""The sentences after "write" begin with a verb, because a refusal appends them after a colon."""


def remedy(name: str) -> str:
    """Return what to write instead of an ATen operation. The text is empty if there is no usual replacement."""
    return REMEDIES.get(name, "")
