"""A torch model whose layers run over the native kernels, with unchanged names, values and behaviour.

    model = convert(model)                  # a copy, to train with any loop, loss and optimizer of torch
    model = convert(model, density=0.2)     # its layers with a fifth of their weights, which alone are parameters
    model = plain(model)                    # torch's own modules again

A converted module is a subclass of torch's module and has its parameters. So state_dict, deepcopy, torch.save, hooks,
train, eval and requires_grad are torch's. Torch computes what the kernels do not support (other devices, types and
transforms), and what they would compute more slowly. neuron_selection.py freezes neurons.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator

from torch import nn

from edgefl.torch.fusible_blocks import Chain, chains, is_plain_pool
from edgefl.torch.native_block import (
    FollowingReLU,
    FollowingReLU6,
    FusedBlock,
    LeadingReLU,
    NativeBatchNorm2d,
    NativeGroupNorm,
    NativeMaxPool2d,
)
from edgefl.torch.native_convolution import NativeConv2d
from edgefl.torch.native_linear import NativeLinear
from edgefl.torch.sparse_layers import sparsify

ALONE: dict[type[nn.Module], type[nn.Module]] = {
    nn.Linear: NativeLinear,
    nn.Conv2d: NativeConv2d,
    nn.BatchNorm2d: NativeBatchNorm2d,
    nn.GroupNorm: NativeGroupNorm,
    nn.MaxPool2d: NativeMaxPool2d,
}
FOLLOWING: dict[type[nn.Module], type[nn.Module]] = {
    nn.ReLU: FollowingReLU,
    nn.ReLU6: FollowingReLU6,
    nn.MaxPool2d: NativeMaxPool2d,
}
PLAIN: dict[type[nn.Module], type[nn.Module]] = {
    **{native: plain for plain, native in (*ALONE.items(), *FOLLOWING.items())},
    LeadingReLU: nn.ReLU,
}
OURS = ("edgefl_link", "edgefl_links", "edgefl_place", "edgefl_active")


def convert(module: nn.Module, *, density: float | None = None, inplace: bool = False) -> nn.Module:
    """Convert the layers of a model to edgefl's native kernels. Converted layers are converted anew.

    density  share of the weights that Linear layers and convolutions without groups keep: the largest weights, of which
             the parameters then consist (sparse_layers.py). With a density the result is a copy, whatever `inplace`
             says. None keeps all weights
    inplace  whether the modules of `module` are changed, so that an optimizer over their parameters goes on. Otherwise
             the result is a copy
    Raises   ValueError for a density that is not above 0 and at most 1

    Modules of exactly torch's types are converted. Parametrized modules, subclasses and lazy modules are left as they
    are.
    """
    found = plain(module, inplace=inplace)
    if density is not None:
        found = sparsify(found, density)
    blocks = chains(found)
    for chain in blocks:
        _join(found, chain)
    for each in found.modules():
        if type(each) in ALONE and _is_served(each):
            each.__class__ = ALONE[type(each)]
    return found


def plain(module: nn.Module, *, inplace: bool = False) -> nn.Module:
    """Convert the native layers of a model back to torch's own modules. Sparse layers stay.

    inplace  whether the modules of `module` are changed. Otherwise the result is a copy
    """
    found = module if inplace else copy.deepcopy(module)
    for each in found.modules():
        if type(each) in PLAIN:
            for name in OURS:
                each.__dict__.pop(name, None)
            each.__class__ = PLAIN[type(each)]
    return found


def converted(module: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Return the converted modules of a model, with their names."""
    return ((name, each) for name, each in module.named_modules() if type(each) in PLAIN)


def _join(model: nn.Module, chain: Chain) -> None:
    first, *followers = (model.get_submodule(name) for name in chain.names)
    link = FusedBlock(followers, chain.is_shared)
    first.__class__ = LeadingReLU if type(first) is nn.ReLU else ALONE[type(first)]
    first.edgefl_link = link  # type: ignore[assignment]
    for position, follower in enumerate(followers):
        follower.__class__ = FOLLOWING.get(type(follower), type(follower))
        follower.edgefl_links = (*follower.__dict__.get("edgefl_links", ()), link)  # type: ignore[assignment]
        follower.edgefl_place = position  # type: ignore[assignment]


def _is_served(module: nn.Module) -> bool:
    """Return whether the kernels support the layer's settings."""
    if isinstance(module, nn.Conv2d):
        return module.padding_mode == "zeros" and not isinstance(module.padding, str)
    return not isinstance(module, nn.MaxPool2d) or is_plain_pool(module)
