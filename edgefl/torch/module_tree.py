"""Placing layers and parameters in the tree of a torch module by their dotted names."""

from __future__ import annotations

from torch import Tensor, nn

from edgefl.errors import GraphError


def attach(root: nn.Module, name: str, layer: nn.Module | Tensor) -> None:
    """Make a module, parameter or buffer reachable from `root` under the dotted `name`, and keep what is already there.

    Raises  GraphError if the name cannot be the name of a module in torch.
    """
    *path, last = name.split(".")
    parent = root
    try:
        for part in path:
            if part not in parent._modules:
                parent.add_module(part, nn.Module())
            parent = parent.get_submodule(part)
        if isinstance(layer, nn.Parameter):
            parent.register_parameter(last, layer)
            return
        if isinstance(layer, Tensor):
            parent.register_buffer(last, layer)
            return
        _keep_children(parent._modules.get(last), layer)
        parent._modules.pop(last, None)
        parent.add_module(last, layer)
    except KeyError as error:  # torch raises KeyError if an attribute of that name exists
        raise GraphError(f"node {name!r} cannot be a torch module: {error.args[0]}") from None


def _keep_children(placeholder: nn.Module | None, layer: nn.Module) -> None:
    """Hand the submodules of a placeholder over to the layer that takes its place.

    A node may come after nodes whose names begin with its own name.
    """
    for name, child in placeholder.named_children() if placeholder else ():
        layer.add_module(name, child)
