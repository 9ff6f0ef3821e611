"""The float64 reference against torch autograd in float64: the check of the kernels that is not against ourselves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from edgefl.kernels import reference
from edgefl.kernels.reference.dropout import philox, words
from edgefl.kernels.table import ACTIVATIONS, RESAMPLINGS, TABLE

from .calls import as_float64, each, run
from .cases import SENTINEL, Args, Array, Case, adversarial, rectifiers, settings

torch = pytest.importorskip("torch")
F = torch.nn.functional


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Waking a pool costs more than these shapes."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def of(op: str) -> Callable[[Callable[[Case], None]], Callable[[], None]]:
    """A test of all cases of one operation whose batch is not empty (torch refuses some empty ones)."""

    def decorate(check: Callable[[Case], None]) -> Callable[[], None]:
        def test() -> None:
            each((case, lambda case=case: check(case)) for case in adversarial(op) if is_full(case.args()))

        return test

    return decorate


def is_full(args: Args) -> bool:
    return all(value.size for value in args.values() if _is_float(value))


def _is_float(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind == "f"


def solved(case: Case) -> tuple[Args, Args]:
    """The case's float64 arguments before and after the reference ran."""
    args = as_float64(case.args())
    return as_float64(case.args()), run(reference, case.op, args)


def tensor(array: Array | None, grad: bool = False) -> Any:
    return None if array is None else torch.tensor(array, requires_grad=grad)


def close(found: Array, wanted: Any) -> None:
    wanted = wanted.detach().numpy() if hasattr(wanted, "detach") else wanted
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-10)


def close_where(found: Array, wanted: Any, ids: Array | None) -> None:
    """Axis 1: equal at `ids` (None: everywhere), the sentinel elsewhere."""
    chosen = np.arange(found.shape[1]) if ids is None else ids
    close(found[:, chosen], wanted.detach().numpy()[:, chosen])
    assert (np.delete(found, chosen, axis=1) == SENTINEL).all()


def only(array: Array, axis: int, ids: Array | None) -> Array:
    """The array with everything outside `ids` set to zero."""
    if ids is None:
        return array
    kept = np.zeros_like(array)
    where = (slice(None),) * axis + (ids,)
    kept[where] = array[where]
    return kept


def block(array: Array, rows: Array | None, cols: Array | None) -> Array:
    array = array if rows is None else array[rows]
    return array if cols is None else array[:, cols]


def conv(x: Any, weight: Any, bias: Any, args: Args) -> Any:
    return F.conv2d(x, weight, bias, args["stride"], args["padding"], args["dilation"], args["groups"])


@of("conv2d_forward")
def test_conv2d_forward(case: Case) -> None:
    before, after = solved(case)
    close(after["y"], conv(tensor(before["x"]), tensor(before["weight"]), tensor(before["bias"]), before))


@of("conv2d_grad_input")
def test_conv2d_grad_input(case: Case) -> None:
    before, after = solved(case)
    x = torch.zeros(before["dx"].shape, dtype=torch.float64, requires_grad=True)
    conv(x, tensor(before["weight"]), None, before).backward(tensor(only(before["dy"], 1, before["outs"])))
    close_where(after["dx"], x.grad, before["ins"])


@of("conv2d_grad_weight")
def test_conv2d_grad_weight(case: Case) -> None:
    before, after = solved(case)
    groups, outs, planes = before["groups"], before["dy"].shape[1], before["x"].shape[1]
    x = before["x"]
    if groups > 1 and planes < before["in_channels"]:  # only the planes of the groups of outs were saved
        rows = np.arange(outs) if before["outs"] is None else before["outs"]
        x = np.zeros((len(x), before["in_channels"], *x.shape[2:]))
        x[:, np.unique(rows // (outs // groups))] = before["x"]
    shape = (outs, x.shape[1] // groups, *before["dw"].shape[2:])
    weight = torch.zeros(shape, dtype=torch.float64, requires_grad=True)
    conv(tensor(x), weight, None, before).backward(tensor(before["dy"]))
    close(after["dw"], block(weight.grad.numpy(), before["outs"], before["ins"]))


@of("conv2d_int8")
def test_conv2d_int8(case: Case) -> None:
    before, after = solved(case)
    x, codes = torch.tensor(before["x"], dtype=torch.float32), before["codes"].view(np.int8).transpose(0, 3, 1, 2)
    largest = x.abs().amax((1, 2, 3), keepdim=True) if x.numel() else torch.zeros(len(x), 1, 1, 1)
    known = largest.isfinite()
    inverse = torch.where(largest < 2.0**-100, 0, 127 / largest)
    rounded = torch.where(known, torch.round(x * inverse), 0).double()
    sums = conv(rounded, tensor(codes.astype(np.float64)), None, {**before, "groups": 1}).float()
    value = torch.where(known, torch.where(largest < 2.0**-100, 0, largest / 127), torch.nan)
    expected = sums * (value * torch.tensor(before["scale"], dtype=torch.float32)[:, None, None])
    if before["bias"] is not None:
        expected += torch.tensor(before["bias"], dtype=torch.float32)[:, None, None]
    np.testing.assert_array_equal(after["y"], expected.numpy())


@of("linear_forward")
def test_linear_forward(case: Case) -> None:
    before, after = solved(case)
    close(after["y"], F.linear(tensor(before["x"]), tensor(before["weight"]), tensor(before["bias"])))


@of("linear_grad_input")
def test_linear_grad_input(case: Case) -> None:
    before, after = solved(case)
    x = torch.zeros(before["dx"].shape, dtype=torch.float64, requires_grad=True)
    F.linear(x, tensor(before["weight"])).backward(tensor(only(before["dy"], 1, before["outs"])))
    close_where(after["dx"], x.grad, before["ins"])


@of("linear_grad_weight")
def test_linear_grad_weight(case: Case) -> None:
    before, after = solved(case)
    weight = torch.zeros(before["dy"].shape[1], before["x"].shape[1], dtype=torch.float64, requires_grad=True)
    F.linear(tensor(before["x"]), weight).backward(tensor(before["dy"]))
    close(after["dw"], block(weight.grad.numpy(), before["outs"], before["ins"]))


@of("channel_sum")
def test_channel_sum_is_the_gradient_of_a_bias(case: Case) -> None:
    before, after = solved(case)
    dy = before["dy"]
    bias = torch.zeros(1, dy.shape[1], *[1] * (dy.ndim - 2), dtype=torch.float64, requires_grad=True)
    (torch.zeros(dy.shape, dtype=torch.float64) + bias).backward(tensor(dy))
    close(after["out"], block(bias.grad.numpy().reshape(-1), before["outs"], None))


@of("batchnorm_forward")
def test_batchnorm_forward_and_running_statistics(case: Case) -> None:
    before, after = solved(case)
    mean, var = tensor(before["running_mean"]), tensor(before["running_var"])
    affine = tensor(before["weight"]), tensor(before["bias"])
    settings = {"training": True, "momentum": before["momentum"], "eps": before["eps"]}
    close(after["y"], F.batch_norm(tensor(before["x"]), mean, var, *affine, **settings))
    close(after["running_mean"], mean)
    close(after["running_var"], var)
    close(after["xhat"], F.batch_norm(tensor(before["x"]), None, None, **settings))
    axes = [axis for axis in range(before["x"].ndim) if axis != 1]
    close(after["inv_std"], 1 / np.sqrt(before["x"].var(axis=tuple(axes)) + before["eps"]))


@of("batchnorm_eval")
def test_batchnorm_eval(case: Case) -> None:
    before, after = solved(case)
    read = (tensor(before[name]) for name in ("x", "running_mean", "running_var", "weight", "bias"))
    close(after["y"], F.batch_norm(*read, training=False, eps=before["eps"]))


@of("batchnorm_relu_eval")
def test_batchnorm_relu_eval(case: Case) -> None:
    before, after = solved(case)
    read = (tensor(before[name]) for name in ("x", "running_mean", "running_var", "weight", "bias"))
    z = F.batch_norm(*read, training=False, eps=before["eps"])
    y = F.relu6(z) if before["relu6"] else F.relu(z)
    close(after["y"], y if before["y"].shape == before["x"].shape else F.max_pool2d(y, 2))


def channels_needed(args: Args) -> Array | None:
    """The channels whose dx a normalisation's backward writes."""
    if "channels" in args or args["groups_needed"] is None:
        return args.get("channels")
    channels = np.arange(args["dx"].shape[1])
    return np.flatnonzero(np.isin(channels // (len(channels) // args["groups"]), args["groups_needed"]))


def backward_by_torch(case: Case, normalise: Callable[..., Any], forward: Callable[..., None]) -> None:
    """Normalise random x both ways, then compare the reference's backward with autograd's."""
    args = as_float64(case.args())
    rng = np.random.default_rng(5)
    x, weight, bias = (rng.standard_normal(args[name].shape) for name in ("dy", "weight", "weight"))
    leaves = [tensor(array, grad=True) for array in (x, weight, bias)]
    normalise(*leaves).backward(tensor(args["dy"]))
    forward(x, weight, bias, args["xhat"], args["inv_std"])
    args["weight"] = weight
    run(reference, case.op, args)
    close_where(args["dx"], leaves[0].grad, channels_needed(args))
    close(args["dweight"], block(leaves[1].grad.numpy(), args["outs"], None))
    close(args["dbias"], block(leaves[2].grad.numpy(), args["outs"], None))


@of("batchnorm_backward")
def test_batchnorm_backward(case: Case) -> None:
    def forward(x: Array, weight: Array, bias: Array, xhat: Array, inv_std: Array) -> None:
        running = np.zeros_like(weight), np.ones_like(weight)
        reference.batchnorm_forward(x, weight, bias, *running, np.empty_like(x), xhat, inv_std, 1e-5, 0.1)

    backward_by_torch(case, lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True), forward)


@of("groupnorm_forward")
def test_groupnorm_forward(case: Case) -> None:
    before, after = solved(case)
    x, groups, eps = tensor(before["x"]), before["groups"], before["eps"]
    close(after["y"], F.group_norm(x, groups, tensor(before["weight"]), tensor(before["bias"]), eps))
    if before["xhat"] is not None:
        close(after["xhat"], F.group_norm(x, groups, eps=eps))
    members = before["x"].reshape(len(x), groups, before["x"][0].size // groups)
    close(after["inv_std"], 1 / np.sqrt(members.var(axis=2) + eps))


@of("groupnorm_backward")
def test_groupnorm_backward(case: Case) -> None:
    groups = case.args()["groups"]

    def forward(x: Array, weight: Array, bias: Array, xhat: Array, inv_std: Array) -> None:
        reference.groupnorm_forward(x, weight, bias, np.empty_like(x), xhat, inv_std, groups, 1e-5)

    backward_by_torch(case, lambda x, w, b: F.group_norm(x, groups, w, b), forward)


@pytest.mark.parametrize("name", rectifiers())
def test_rectifier_forward_and_backward(name: str) -> None:
    """torch has its function under the same name, with settings of the same names."""

    def check(case: Case) -> None:
        args, chosen = as_float64(case.args()), settings(case)
        x = np.random.default_rng(3).standard_normal(args["dy"].shape)
        x[..., ::5] = 0
        leaf, y = tensor(x, grad=True), np.empty_like(x)
        expected = getattr(F, name)(leaf, **chosen)
        expected.backward(tensor(args["dy"]))
        getattr(reference, f"{name}_forward")(x=x, y=y, bits=args["bits"], **chosen)
        run(reference, case.op, args)
        close(y, expected)
        close_where(args["dx"], leaf.grad, args["channels"])

    of(f"{name}_backward")(check)()


@of("relu6_forward")
def test_relu6_forward_and_bits(case: Case) -> None:
    before, after = solved(case)
    leaf = tensor(before["x"], grad=True)
    expected = F.relu6(leaf)
    expected.sum().backward()
    close(after["y"], expected)
    if before["bits"] is not None:
        dx = np.empty_like(before["x"])
        reference.relu_backward(np.ones_like(dx), after["bits"], dx, None)
        close(dx, leaf.grad)


SMOOTH = {
    "gelu_tanh": lambda x, args: F.gelu(x, approximate="tanh"),
    "softplus": lambda x, args: F.softplus(x, args["beta"], args["threshold"]),
    "hardsigmoid": lambda x, args: (x / 6 + 0.5).clamp(0, 1),  # torch's own has 1/6 in float32, going back
}


def smooth(x: Any, args: Args) -> Any:
    name = ACTIVATIONS[args["kind"]]
    return SMOOTH[name](x, args) if name in SMOOTH else getattr(F, name)(x)


@of("activation_forward")
def test_activation_forward(case: Case) -> None:
    before, after = solved(case)
    close(after["y"], smooth(tensor(before["x"]), before))


@of("activation_backward")
def test_activation_backward(case: Case) -> None:
    args = as_float64(case.args())
    x = 2 * np.random.default_rng(3).standard_normal(args["dy"].shape)
    leaf = tensor(x, grad=True)
    y = smooth(leaf, args)
    y.backward(tensor(args["dy"]))
    args["saved"] = y.detach().numpy() if ACTIVATIONS[args["kind"]] in ("sigmoid", "tanh") else x
    run(reference, case.op, args)
    close_where(args["dx"], leaf.grad, args["channels"])


@of("scale_places")
def test_scale_places(case: Case) -> None:
    before, after = solved(case)
    close(after["y"], tensor(before["x"]) * tensor(before["scale"]).unsqueeze(1))


@of("place_dot")
def test_place_dot(case: Case) -> None:
    before, after = solved(case)
    close(after["out"], (tensor(before["a"]) * tensor(before["b"])).sum(1))


NAMED = [
    name
    for name, row in TABLE.items()
    if name.endswith("_backward") and row.names[:2] == ("dy", "x") and row.names[-2:] == ("dx", "channels")
    if all(argument.type == "real" for argument in row.arguments[2:-2])
]
"""The activations that have the name and the settings of a function of torch.nn.functional."""


@pytest.mark.parametrize("op", NAMED)
def test_an_activation_with_the_name_of_torchs(op: str) -> None:
    name = op.removesuffix("_backward")

    def check(case: Case) -> None:
        before, after = solved(case)
        leaf, settings_of = tensor(before["x"], grad=True), [before[each] for each in TABLE[op].names[2:-2]]
        y = getattr(F, name)(leaf, *settings_of)
        y.backward(tensor(before["dy"]))
        close_where(after["dx"], leaf.grad, before["channels"])
        found = np.empty_like(before["x"])
        getattr(reference, f"{name}_forward")(before["x"], *settings_of, found)
        close(found, y)

    of(op)(check)()


def test_elu_is_an_activation_with_the_name_of_torchs() -> None:
    assert "elu_backward" in NAMED


@of("prelu_backward")
def test_prelu_forward_and_backward(case: Case) -> None:
    before, after = solved(case)
    leaves = tensor(before["x"], grad=True), tensor(before["weight"], grad=True)
    expected, y = F.prelu(*leaves), np.empty_like(before["x"])
    expected.backward(tensor(before["dy"]))
    reference.prelu_forward(before["x"], before["weight"], y)
    close(y, expected)
    close_where(after["dx"], leaves[0].grad, before["channels"])
    close(after["dweight"], block(leaves[1].grad.numpy(), before["outs"], None))


def test_words_of_a_stream_are_philox() -> None:
    """The vectors came with the first implementation (Random123, kat_vectors)."""
    pi = (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344)
    for counter, key, expected in (
        ((0, 0, 0, 0), 0, (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((2**32 - 1,) * 4, 2**64 - 1, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (pi, 0x299F31D0A4093822, (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1)),
    ):
        found = philox(tuple(np.array([word], np.uint64) for word in counter), key)
        assert tuple(int(word[0]) for word in found) == expected, hex(key)


@of("dropout")
def test_dropout_multiplies_by_a_factor_for_each_word(case: Case) -> None:
    before, after = solved(case)
    (batch, channels, *plane), chosen = before["x"].shape, before["channels"]
    found = words(before["state"], before["node"], batch, channels * (1 if before["whole"] else int(np.prod(plane))))
    factors = np.where(found >= before["threshold"], before["scale"], 0)
    shape = (batch, channels, *([1] * len(plane) if before["whole"] else plane))
    close_where(after["y"], tensor(before["x"] * factors.reshape(shape)), chosen)


def test_words_of_a_stream_lie_as_the_header_says() -> None:
    state = np.array([0x1234567890ABCDEF, 7, 5], np.int64)
    found = words(state, 3, 2, 300)
    for example, position in ((0, 0), (0, 17), (1, 63), (0, 64), (1, 299)):
        block = position // 64 * 16 + position % 16
        counter = tuple(np.array([word], np.uint64) for word in (block, 5 + example, 7, 3))
        assert found[example, position] == philox(counter, int(state[0]))[position % 64 // 16][0], (example, position)


@of("pad_planes")
def test_padding_and_cropping(case: Case) -> None:
    before, after = solved(case)
    (height, width), (tall, wide) = before["x"].shape[2:], before["y"].shape[2:]
    top, left = before["top"], before["left"]
    room = (left, wide - width - left, top, tall - height - top)
    close(after["y"], F.pad(tensor(before["x"]), room))
    again = np.empty_like(before["x"])
    reference.crop_planes(after["y"], top, left, again)
    close(again, before["x"])


@of("upsample_backward")
def test_upsampling(case: Case) -> None:
    before, after = solved(case)
    leaf = torch.randn(before["dx"].shape, dtype=torch.float64, requires_grad=True)
    expected, y = F.interpolate(leaf, scale_factor=before["scale"], mode="nearest"), np.empty_like(before["dy"])
    expected.backward(tensor(before["dy"]))
    reference.upsample_forward(leaf.detach().numpy(), before["scale"], y)
    close(y, expected)
    close(after["dx"], leaf.grad)


@of("resample_backward")
def test_sampling_anew(case: Case) -> None:
    before, after = solved(case)
    leaf = torch.randn(before["dx"].shape, dtype=torch.float64, requires_grad=True)
    (height, width), (tall, wide), y = leaf.shape[2:], before["dy"].shape[2:], np.empty_like(before["dy"])
    top, left, way = before["top"], before["left"], RESAMPLINGS[before["mode"]]
    if way in ("half_pixel", "aligned"):
        expected = F.interpolate(leaf, (tall, wide), mode="bilinear", align_corners=way == "aligned")
    elif way == "flip":
        expected = leaf.flip(3)
    else:
        expected = F.pad(leaf, (left, wide - width - left, top, tall - height - top), mode=way)
    expected.backward(tensor(before["dy"]))
    reference.resample_forward(leaf.detach().numpy(), before["mode"], top, left, y)
    close(y, expected)
    close(after["dx"], leaf.grad)


def _through_steps(op: str, before: Args) -> tuple[Any, Any, dict[str, Any]]:
    """torch's layer over the gates' inputs, its states, and by name the tensors that it differentiates."""
    gates, weight = tensor(before["gates"], grad=True), tensor(before["weight"], grad=True)
    bias, units = tensor(before["bias"], grad=True), before["weight"].shape[1]
    rows = torch.eye(weight.shape[0], dtype=torch.float64)  # the input's product is done: torch's own is with 1
    biases = [torch.zeros_like(bias), bias] if bias is not None else []
    state = torch.zeros(1, gates.shape[1], units, dtype=torch.float64)
    rnn = torch.rnn_relu if before.get("relu") else torch.rnn_tanh
    run, carried = {"rnn": (rnn, state), "gru": (torch.gru, state), "lstm": (torch.lstm, (state, state))}[op]
    found = run(gates, carried, [rows, weight, *biases], bool(biases), 1, 0.0, True, False, False)
    return found[0], found[2] if op == "lstm" else None, {"gates": gates, "weight": weight, "bias": bias}


@pytest.mark.parametrize("op", ["rnn", "gru", "lstm"])
def test_recurrence_forward_and_backward(op: str) -> None:
    """The backward pass reads what forward left. The gradients of weight and bias are products with what backward
    leaves.
    """

    def check(case: Case) -> None:
        before, after = solved(case)
        states, last_cell, leaves = _through_steps(op, before)
        close(after["states"][1:], states)
        assert not after["states"][0].any()
        if last_cell is not None:
            close(after["cells"][-1:], last_cell)
        if op == "gru" and before["hidden"] is None:
            return
        dy = np.random.default_rng(1).standard_normal(states.shape)
        states.backward(torch.tensor(dy))
        args = {"dy": dy, "gates": after["gates"], "states": after["states"], "weight": before["weight"]}
        if op == "gru":
            dhidden = np.empty_like(after["gates"])
            reference.gru_backward(**args, hidden=after["hidden"], dhidden=dhidden, units=None)
        elif op == "rnn":
            del args["states"]
            reference.rnn_backward(**args, relu=before["relu"], units=None)
            dhidden = args["gates"]
        else:
            del args["states"]
            reference.lstm_backward(**args, cells=after["cells"], units=None)
            dhidden = args["gates"]
        close(args["gates"], leaves["gates"].grad)
        close(np.einsum("tbg,tbh->gh", dhidden, after["states"][:-1]), leaves["weight"].grad)
        if leaves["bias"] is not None:
            close(dhidden.sum(axis=(0, 1)), leaves["bias"].grad)

    each((case, lambda case=case: check(case)) for case in adversarial(f"{op}_forward") if is_full(case.args()))


@of("attention_forward")
def test_attention_forward_and_backward(case: Case) -> None:
    before, after = solved(case)
    if before["shares"] is None:
        before["shares"] = np.empty((len(before["qkv"]), before["heads"], *2 * before["qkv"].shape[2:]))
        reference.attention_forward(**(before | {"y": np.empty_like(before["y"])}))
        after["shares"] = before["shares"]
    heads, qkv = before["heads"], tensor(before["qkv"], grad=True)
    parts = (part.unflatten(1, (heads, -1)).transpose(2, 3) for part in qkv.chunk(3, 1))
    y = F.scaled_dot_product_attention(*parts, is_causal=before["causal"]).transpose(2, 3).flatten(1, 2)
    close(after["y"], y)
    dy = np.random.default_rng(1).standard_normal(y.shape)
    y.backward(torch.tensor(dy))
    dqkv = np.empty_like(before["qkv"])
    reference.attention_backward(dy, before["qkv"], after["shares"], heads, before["causal"], dqkv, None)
    close(dqkv, qkv.grad)


@of("sdpa_forward")
def test_sdpa_forward_and_backward(case: Case) -> None:
    before, after = solved(case)
    heads, kv_heads, bias = before["heads"], before["kv_heads"], before["bias"]
    qkv, added = tensor(before["qkv"], grad=True), tensor(bias, grad=True)
    size, places = qkv.shape[1] // (heads + 2 * kv_heads), qkv.shape[2]
    parts = qkv.split([heads * size, kv_heads * size, kv_heads * size], 1)
    q, k, v = (part.unflatten(1, (-1, size)) for part in parts)
    k, v = (part.repeat_interleave(heads // kv_heads, 1) for part in (k, v))
    scores = torch.einsum("bhcj,bhci->bhji", k, q) * before["scale"]
    scores = scores if bias is None else scores + added.repeat_interleave(heads // len(bias), 0)
    behind = torch.arange(places) - torch.arange(places)[:, None]  # query minus key
    left_out = (behind < 0) & before["causal"] | (behind >= (before["window"] or places))
    shares = scores.masked_fill(left_out, -torch.inf).softmax(2)
    if before["state"] is not None:
        found = words(before["state"], before["node"], len(shares), shares[0].numel()) >= before["threshold"]
        shares = shares * torch.tensor(found.reshape(shares.shape) * before["keep_scale"])
    y = torch.einsum("bhcj,bhji->bhci", v, shares).flatten(1, 2)
    close(after["y"], y)
    dy, dqkv = np.random.default_rng(1).standard_normal(y.shape), np.empty_like(before["qkv"])
    y.backward(torch.tensor(dy))
    lse, dbias = scores.masked_fill(left_out, -torch.inf).logsumexp(2), None if bias is None else np.empty_like(bias)
    if before["lse"] is not None:
        close(after["lse"], lse)
    del before["y"], before["lse"]
    reference.sdpa_backward(dy, **before, lse=lse.detach().numpy(), dqkv=dqkv, dbias=dbias, kv_needed=None)
    close(dqkv, qkv.grad)
    if bias is not None:
        close(dbias, added.grad)


@of("rmsnorm_forward")
def test_rmsnorm_forward_and_backward(case: Case) -> None:
    before, after = solved(case)
    x, weight = tensor(before["x"], grad=True), tensor(before["weight"], grad=True)
    runs = x.unflatten(1, (-1, len(weight))).movedim(2, -1)
    y = F.rms_norm(runs, (len(weight),), weight + before["offset"], before["eps"]).movedim(-1, 2).flatten(1, 2)
    close(after["y"], y)
    dy = np.random.default_rng(1).standard_normal(y.shape)
    y.backward(torch.tensor(dy))
    dx, dweight = np.empty_like(before["x"]), np.empty_like(before["weight"])
    settings = (before["weight"], after["inv_rms"], before["offset"])
    reference.rmsnorm_backward(dy, before["x"], *settings, dx, dweight, None)
    close(dx, x.grad)
    close(dweight, weight.grad)


@of("rotary")
def test_rotary_and_its_gradient(case: Case) -> None:
    before, after = solved(case)
    cos, sin, x = torch.tensor(before["cos"]), torch.tensor(before["sin"]), tensor(before["x"], grad=True)
    first, second = x.unflatten(1, (-1, len(cos))).chunk(2, 2)
    turned = torch.cat((first, second), 2) * cos + torch.cat((-second, first), 2) * sin
    if not before["back"]:
        close(after["y"], turned.flatten(1, 2))
    else:  # the gradient of <turned, x> is the transposed map of x
        turned.flatten(1, 2).backward(torch.tensor(before["x"]))
        close(after["y"], x.grad)


def test_relu_bits_are_counted_from_the_lowest() -> None:
    x = np.array([[[1.0, 0, -1, 2, 0, 0, 0, 3, -5, 4]]])
    bits = np.full((1, 1, 2), 0xFF, np.uint8)
    reference.relu_forward(x, np.empty_like(x), bits)
    assert bits.tolist() == [[[0b10001001, 0b10]]]


def is_cut(args: Args) -> bool:
    """Return whether a pool has more windows than fit whole."""
    source, result = args["x" if "x" in args else "dx"], args["y" if "y" in args else "dy"]
    axes = zip(source.shape[2:4], result.shape[2:4], args["kernel"], args["stride"], args["padding"], strict=True)
    return any((n + 2 * p - k) // s + 1 < found for n, found, k, s, p in axes)


@of("maxpool_forward")
def test_maxpool_forward_and_codes(case: Case) -> None:
    before, after = solved(case)
    (kh, kw), (sh, sw), (ph, pw) = before["kernel"], before["stride"], before["padding"]
    window, is_ceiled = ((kh, kw), (sh, sw), (ph, pw)), is_cut(before)
    y, winner = F.max_pool2d(tensor(before["x"]), *window, ceil_mode=is_ceiled, return_indices=True)
    close(after["y"], y)
    if before["codes"] is None:
        return
    rows, cols = np.indices(y.shape[2:])
    height = winner.numpy() // before["x"].shape[3] + ph - rows * sh
    width = winner.numpy() % before["x"].shape[3] + pw - cols * sw
    assert (after["codes"] == height * kw + width).all()


@of("maxpool_backward")
def test_maxpool_backward(case: Case) -> None:
    args = as_float64(case.args())
    x = np.random.default_rng(3).standard_normal(args["dx"].shape)
    window = args["kernel"], args["stride"], args["padding"]
    leaf = tensor(x, grad=True)
    F.max_pool2d(leaf, *window, ceil_mode=is_cut(args)).backward(tensor(args["dy"]))
    reference.maxpool_forward(x, np.empty_like(args["dy"]), args["codes"], *window)
    run(reference, case.op, args)
    close_where(args["dx"], leaf.grad, args["channels"])


@of("maxpool_lanes_forward")
def test_maxpool_of_images_side_by_side(case: Case) -> None:
    """Lane by lane as the pool of one image."""
    before, after = solved(case)
    window = before["kernel"], before["stride"], before["padding"]
    for lane in range(before["x"].shape[4]):
        y, codes = np.empty(after["y"].shape[:4]), np.empty(after["y"].shape[:4], np.uint8)
        reference.maxpool_forward(np.ascontiguousarray(before["x"][..., lane]), y, codes, *window)
        assert (after["y"][..., lane] == y).all()
        assert before["codes"] is None or (after["codes"].reshape(after["y"].shape)[..., lane] == codes).all()


@of("maxpool_lanes_backward")
def test_maxpool_of_images_side_by_side_backward(case: Case) -> None:
    before, after = solved(case)
    window = before["kernel"], before["stride"], before["padding"]
    for lane in range(before["dx"].shape[4]):
        dy, codes = (
            np.ascontiguousarray(before[name].reshape(before["dy"].shape)[..., lane]) for name in ("dy", "codes")
        )
        dx = np.empty(before["dx"].shape[:4])
        reference.maxpool_backward(dy, codes, dx, *window, None)
        assert (after["dx"][..., lane] == dx).all()


@of("to_lanes")
def test_images_side_by_side(case: Case) -> None:
    before, after = solved(case)
    lanes, x = before["lanes"], before["x"].reshape(len(before["x"]), -1)
    found = after["y"].reshape(len(x) // lanes, x.shape[1], lanes)
    for image, cell in np.ndindex(x.shape):
        assert found[image // lanes, cell, image % lanes] == x[image, cell]


@of("from_lanes")
def test_images_apart_again(case: Case) -> None:
    before, after = solved(case)
    again = np.empty_like(before["y"])
    reference.to_lanes(after["x"], before["lanes"], again)
    assert (again == before["y"]).all()


def avg_pool(x: Any, args: Args) -> Any:
    window = args["kernel"], args["stride"], args["padding"]
    return F.avg_pool2d(x, *window, ceil_mode=is_cut(args), count_include_pad=args["count_include_pad"])


@of("adaptive_avgpool_forward")
def test_adaptive_avgpool_forward(case: Case) -> None:
    before, after = solved(case)
    close(after["y"], F.adaptive_avg_pool2d(tensor(before["x"]), before["y"].shape[2:]))


@of("adaptive_avgpool_backward")
def test_adaptive_avgpool_backward(case: Case) -> None:
    before, after = solved(case)
    x = torch.zeros(before["dx"].shape, dtype=torch.float64, requires_grad=True)
    F.adaptive_avg_pool2d(x, before["dy"].shape[2:]).backward(tensor(before["dy"]))
    close_where(after["dx"], x.grad, before["channels"])


@of("avgpool_forward")
def test_avgpool_forward(case: Case) -> None:
    before, after = solved(case)
    close(after["y"], avg_pool(tensor(before["x"]), before))


@of("avgpool_backward")
def test_avgpool_backward(case: Case) -> None:
    before, after = solved(case)
    x = torch.zeros(before["dx"].shape, dtype=torch.float64, requires_grad=True)
    avg_pool(x, before).backward(tensor(before["dy"]))
    close_where(after["dx"], x.grad, before["channels"])


@of("softmax_xent")
def test_softmax_xent(case: Case) -> None:
    before, after = solved(case)
    logits, labels = tensor(before["logits"], grad=True), tensor(before["labels"]).long()
    F.cross_entropy(logits, labels).backward()
    close(after["loss"] - before["loss"], [float(F.cross_entropy(logits, labels, reduction="sum").detach())])
    assert after["correct"] - before["correct"] == int((logits.argmax(dim=1) == labels).sum())
    if before["dlogits"] is not None:
        close(after["dlogits"], logits.grad)


@of("cross_entropy")
def test_cross_entropy(case: Case) -> None:
    before, after = solved(case)
    logits, labels = tensor(before["logits"], grad=True), tensor(before["labels"]).long()
    weight, smoothing = tensor(before["weight"]), before["smoothing"]
    settings = {"weight": weight, "label_smoothing": smoothing}
    F.cross_entropy(logits, labels, **settings).backward()
    close(
        after["loss"] - before["loss"], [float(F.cross_entropy(logits, labels, reduction="sum", **settings).detach())]
    )
    assert after["correct"] - before["correct"] == int((logits.argmax(dim=1) == labels).sum())
    if before["dlogits"] is not None:
        close(after["dlogits"], logits.grad)


@of("place_cross_entropy")
def test_place_cross_entropy(case: Case) -> None:
    before, after = solved(case)
    logits, every = tensor(before["logits"], grad=True), tensor(before["labels"][before["index"]]).long()
    every[every < 0] = before["ignored"]
    labels = every[before["first"] : before["first"] + len(logits)][:, before["place"] :][:, : logits.shape[2]]
    settings = {"label_smoothing": before["smoothing"], "ignore_index": before["ignored"]}
    settings["weight"] = tensor(before["weight"])
    counts = labels != before["ignored"]
    total = F.cross_entropy(logits, labels, reduction="sum", **settings)
    classes = every[every != before["ignored"]]
    weights = len(classes) if before["weight"] is None else settings["weight"][classes].sum()
    close(after["loss"] - before["loss"], [float(total.detach())])
    assert after["correct"] - before["correct"] == int(((logits.argmax(dim=1) == labels) & counts).sum())
    if before["dlogits"] is not None:
        (total / weights if counts.any() else logits.sum() * 0).backward()
        close(after["dlogits"], logits.grad)


@of("absolute_error")
def test_absolute_error(case: Case) -> None:
    before, after = solved(case)
    y = tensor(before["y"], grad=True)
    of_targets(F.l1_loss(y, tensor(before["targets"])), y, before, after, "dy")


@of("binary_cross_entropy")
def test_binary_cross_entropy(case: Case) -> None:
    before, after = solved(case)
    logits, targets = tensor(before["logits"], grad=True), tensor(before["targets"])
    mean = F.binary_cross_entropy_with_logits(logits, targets, pos_weight=tensor(before["pos_weight"]))
    of_targets(mean, logits, before, after, "dlogits")
    assert after["correct"] - before["correct"] == int(((logits > 0) == (targets > 0.5)).sum())


@of("squared_error")
def test_squared_error(case: Case) -> None:
    before, after = solved(case)
    y = tensor(before["y"], grad=True)
    of_targets(F.mse_loss(y, tensor(before["targets"])), y, before, after, "dy")


@of("huber")
def test_huber(case: Case) -> None:
    before, after = solved(case)
    y = tensor(before["y"], grad=True)
    of_targets(F.huber_loss(y, tensor(before["targets"]), delta=before["delta"]), y, before, after, "dy")


def of_targets(mean: Any, y: Any, before: Args, after: Args, gradient: str) -> None:
    """The sum over examples of their mean losses, and the gradient of the mean over all."""
    mean.backward()
    close(after["loss"] - before["loss"], [float(mean.detach()) * len(y)])
    if before[gradient] is not None:
        close(after[gradient], y.grad)


SGD_SETTINGS = [(0.0, 0.0, None), (0.9, 0.01, None), (0.0, 0.1, 0.5), (0.9, 0.01, 2.0)]


@pytest.mark.parametrize(("momentum", "decay", "clip"), SGD_SETTINGS)
def test_sgd_steps_follow_torch(momentum: float, decay: float, clip: float | None) -> None:
    rng = np.random.default_rng(1)
    weights = [rng.standard_normal(shape) for shape in ((4, 3, 9), (5, 1, 1))]
    leaves = [torch.nn.Parameter(tensor(weight)) for weight in weights]
    optimiser = torch.optim.SGD(leaves, lr=0.1, momentum=momentum, weight_decay=decay)
    velocities, hyper = [np.zeros_like(weight) for weight in weights], np.array([0.1, momentum, decay, 0])
    for _ in range(4):
        grads = [rng.standard_normal(weight.shape) for weight in weights]
        for leaf, grad in zip(leaves, grads):
            leaf.grad = tensor(grad)
        scale = None if clip is None else np.empty(1)
        if scale is not None:
            torch.nn.utils.clip_grad_norm_(leaves, clip)
            total = np.zeros(1)
            for grad in grads:
                reference.sum_squares(grad, total)
            reference.clip_scale(total, clip, scale)
        optimiser.step()
        for weight, grad, velocity in zip(weights, grads, velocities):
            reference.sgd(weight, grad, hyper, None, None, scale, velocity)
    for weight, leaf in zip(weights, leaves):
        close(weight, leaf)


def test_sums_of_a_server_follow_numpy() -> None:
    rng = np.random.default_rng(1)
    x, before, total, factors = rng.standard_normal(40), rng.standard_normal(40), np.ones(1), np.array([0.3, 9, 5, -2])
    copy = np.empty(40)
    reference.sum_squared_changes(x, before, total, copy)
    close(total, tensor(1 + np.linalg.norm(x - before) ** 2))
    assert (copy == x).all()
    sums = rng.standard_normal(40)
    expected = tensor(sums + 0.3 * x - 2 * before)
    reference.add_scaled(sums, x, factors, fourth=before)
    close(sums, expected)


def followed(make: Callable[[Any], Any], step: Callable[[Array, Array, dict[str, Array]], None]) -> None:
    """Eight steps of torch's optimiser and of ours on the same gradients lead to the same weights."""
    rng = np.random.default_rng(1)
    weight, states = rng.standard_normal((4, 3, 9)), {}
    leaf = torch.nn.Parameter(tensor(weight))
    optimiser = make([leaf])
    for _ in range(8):
        grad = rng.standard_normal(weight.shape)
        leaf.grad = tensor(grad)
        optimiser.step()
        step(weight, grad, states)
    close(weight, leaf)


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_nesterov_steps_follow_torch(decay: float) -> None:
    def step(weight: Array, grad: Array, states: dict[str, Array]) -> None:
        velocity = states.setdefault("velocity", np.zeros_like(weight))
        reference.nesterov(weight, grad, np.array([0.1, 0.9, decay, 0]), None, None, velocity)

    followed(lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=decay, nesterov=True), step)


@pytest.mark.parametrize("decay", [0.0, 0.1])
@pytest.mark.parametrize("kind", ["Adam", "AdamW"])
def test_adam_steps_follow_torch(kind: str, decay: float) -> None:
    settings, rates = np.array([0.02, 0.8, 0.95, 1e-7, decay, float(kind == "AdamW"), 0]), np.zeros(9)

    def step(weight: Array, grad: Array, states: dict[str, Array]) -> None:
        mean, square = (states.setdefault(name, np.zeros_like(weight)) for name in ("mean", "square"))
        reference.begin_adam(settings, states.setdefault("steps", np.zeros(1, np.int64)), rates)
        reference.adam(weight, grad, rates, None, None, mean, square)

    make = getattr(torch.optim, kind)
    followed(lambda p: make(p, lr=0.02, betas=(0.8, 0.95), eps=1e-7, weight_decay=decay), step)


def test_sgd_moves_the_block_only_by_its_proximal_and_linear_terms() -> None:
    w = np.arange(6.0).reshape(3, 2, 1)
    rows, cols = np.array([0, 2], np.int32), np.array([1], np.int32)
    grad, centre, linear = np.array([2.0, 4.0]), np.array([0.0, 1.0]), np.array([10.0, 20.0])
    reference.sgd(w, grad, np.array([0.5, 0, 0, 3]), rows, cols, np.array([0.5]), None, centre, linear)
    # w[0, 1] = 1 - 0.5 (0.5 * 2 + 3 (1 - 0) + 10) and w[2, 1] = 5 - 0.5 (0.5 * 4 + 3 (5 - 1) + 20)
    assert w.ravel().tolist() == [0, -6, 2, 3, 4, -12]
