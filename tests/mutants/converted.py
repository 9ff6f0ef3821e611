"""Mutants of converted torch modules: their blocks, what is left to torch, and neurons that are selected."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

CONVERT, SELECT, REGISTERED = (f"tests/torch/test_{name}.py" for name in ("convert", "select", "library_operators"))
COMMAND = "tests/cli/test_bench_command.py"
NN = "edgefl/torch/"

MUTANTS = (
    Mutant(
        "block-watched",
        f"{NN}native_block.py",
        "return not self.is_watched and not",
        "return not",
        "a hook on a part of a block sees the block's result",
        CONVERT,
    ),
    Mutant(
        "block-two-readers",
        f"{NN}fusible_blocks.py",
        "isinstance(source, fx.Node) and len(source.users) == 1",
        "isinstance(source, fx.Node)",
        "a norm that others read, too, gives its ReLU",
        CONVERT,
    ),
    Mutant(
        "block-odd-pool",
        f"{NN}fusible_blocks.py",
        "has_pool and is_halving(run[2])",
        "has_pool",
        "any pool after a norm becomes one of 2x2",
        CONVERT,
    ),
    Mutant(
        "shared-relu",
        f"{NN}native_block.py",
        "any(link.last() is x for link in self.edgefl_links)",
        "any(link.joined for link in self.edgefl_links)",
        "a ReLU that places share passes on what no norm has rectified",
        CONVERT,
    ),
    Mutant(
        "pool-rectified",
        f"{NN}block_autograd.py",
        "dy = dy * pool_kernels.unpacked(bits, dy.shape)",
        "dy = dy + 0",
        "a second gradient passes where ReLU gave 0",
        CONVERT,
    ),
    Mutant(
        "serves-double",
        f"{NN}native_tensors.py",
        "each.dtype is torch.float32 and each.is_cpu",
        "each.is_cpu",
        "other types go to the kernels of float32",
        CONVERT,
    ),
    Mutant(
        "statistics-frozen",
        f"{NN}native_block.py",
        "        if before is not None:\n            keep_frozen(running, before, active)\n",
        "",
        "running statistics of frozen channels move",
        SELECT,
    ),
    Mutant(
        "signal-short",
        f"{NN}layer_selection.py",
        "self.reach.is_whole = x.requires_grad",
        "self.reach.is_whole = False",
        "an input that needs its gradient lacks that of frozen neurons",
        SELECT,
    ),
    Mutant(
        "signal-whole",
        f"{NN}gradient_reach.py",
        "needed=needs.get(node.inputs[0])",
        "needed=None",
        "the signal is computed for neurons that nothing below needs",
        SELECT,
    ),
    Mutant(
        "optimizer-frozen",
        f"{NN}neuron_selection.py",
        "torch.where(mask_of(values, active), values, old)",
        "values",
        "weight decay moves frozen coordinates",
        SELECT,
    ),
    Mutant(
        "depthwise-read",
        f"{NN}convolution_kernels.py",
        "active.outs // (weight[0] // groups)",
        "active.outs",
        "a depthwise convolution with several outputs a channel keeps other channels than it reads",
        SELECT,
    ),
    Mutant(
        "statistics-compiled",
        f"{NN}library_operators.py",
        "running_mean.copy_(mean.detach())",
        "mean.detach()",
        "the compiled block leaves the running mean",
        REGISTERED,
    ),
    Mutant(
        "saved-of-others",
        f"{NN}pass_variants.py",
        'ways.append(_way(f"converted, keep {keep:g}", frozen, x, output_grad, share))',
        'ways.append(_way(f"converted, keep {keep:g}", converted, x, output_grad, share))',
        "the table's last row is of the whole model",
        COMMAND,
    ),
)
