"""PFLEGO against the loss it minimises: exact steps in float64, unbiased ones, what is counted, kept and sent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from edgefl import kernels, rng
from edgefl.learning import SGD, GraphLearner, Samples
from edgefl.methods import PFLEGO, FedPer
from edgefl.methods.accumulator import Accumulator
from edgefl.methods.algorithm import Algorithm
from edgefl.methods.client_state import ClientState
from edgefl.methods.personal_head import CLASSES, HEAD, Personal
from edgefl.methods.task import BODY, State, Task
from edgefl.models.graph import Graph, Model, Node, Params
from edgefl.models.graph.operations import Conv2d, Flatten, Linear, MaxPool2d, ReLU
from edgefl.models.neurons.model_spec import ModelSpec

CLASSES_OF = ([0, 2], [1, 2, 4], [0, 1, 2, 3, 4], [3, 4])  # of four clients
SIZES = (7, 12, 20, 9)  # their training samples
NONE = np.zeros(0, np.int32)


def net() -> Graph:
    """conv(1 -> 3) - ReLU - pool - fc(12 -> 6) - ReLU - fc(6 -> 5)."""
    return Graph(
        (1, 4, 4),
        (
            Node("conv", Conv2d(1, 3, (3, 3), padding=(1, 1)), ("input",)),
            Node("relu1", ReLU(), ("conv",)),
            Node("pool", MaxPool2d((2, 2), (2, 2)), ("relu1",)),
            Node("flat", Flatten(), ("pool",)),
            Node("fc1", Linear(12, 6), ("flat",)),
            Node("relu2", ReLU(), ("fc1",)),
            Node("fc", Linear(6, 5), ("relu2",)),
        ),
    )


SPEC = ModelSpec.of(net())
INITIAL = net().init(rng.stream(1, rng.INIT))


def clients(backend: str = "reference", dtype: Any = np.float64, count: int = 4) -> list[ClientState]:
    """Return clients with classes and sizes of their own. Each has five more samples, for its test."""
    made = []
    for k in range(count):
        stream, n = rng.stream(5, rng.DATA, client=k), SIZES[k] + 5
        y = np.resize(CLASSES_OF[k], n).astype(np.int32)
        x = (stream.uniform(n * 16).reshape(n, 1, 4, 4) + 0.2 * y[:, None, None, None]).astype(dtype)
        learner = GraphLearner(Model(net(), INITIAL), backend, dtype)
        order = np.arange(n, dtype=np.int32)
        made.append(ClientState(k, 1, SPEC, learner, Samples(x, y), order[:-5], NONE, order[-5:]))
    return made


def task(client_states: Sequence[ClientState]) -> Task:
    return Task(SPEC, len(client_states), 1, examples=sum(len(client_state.train) for client_state in client_states))


def start(method: Algorithm, client_states: Sequence[ClientState]) -> State:
    """The state before round 1, in the clients' type."""
    dtype = client_states[0].learner.read()["fc.bias"].dtype
    return method.start(task(client_states), {name: value.astype(dtype) for name, value in INITIAL.items()})


def play(
    method: Algorithm, client_states: Sequence[ClientState], state: State, chosen: Sequence[int] | None = None
) -> State:
    """Return the server's state after a round. `chosen` replaces the clients that the method selects."""
    about, accumulator = task(client_states), Accumulator(SPEC)
    plans = {plan.client: plan for plan in replace(method, per_round=len(client_states)).plan(about, state, 1)}  # type: ignore[type-var]
    scale = {"scale": len(client_states) / len(chosen or client_states)}
    for client in range(len(client_states)) if chosen is None else chosen:
        plan = replace(plans[client], settings={**plans[client].settings, **scale})
        reply = method.train(client_states[client], plan)
        assert reply.payload.keys() == {BODY}
        method.aggregate(accumulator, plan, reply)
    return method.finish(about, state, accumulator, 1)


def heads(client_states: Sequence[ClientState]) -> list[Params]:
    """Return a copy of what every client keeps, which is empty for a client that was never selected."""
    return [
        {name: value.copy() for name, value in client_state.arrays.get(HEAD, {}).items()}
        for client_state in client_states
    ]


def with_heads(client_states: Sequence[ClientState], body: Params) -> None:
    """Gives every client its first head, without a round."""
    for client_state in client_states:
        Personal.of(client_state, body, "torch").keep_head()


def central(client_states: Sequence[ClientState], body: Params) -> tuple[Params, list[Params]]:
    """The gradient of L = sum a_i l_i at this body and the heads that the clients keep, each client in one pass."""
    total, gradients = sum(len(client_state.train) for client_state in client_states), []
    trunk = {name: np.zeros_like(value) for name, value in body.items()}
    for client_state in client_states:
        mine = Personal.of(client_state, body, "torch")
        share = len(client_state.train) / total
        gradient = mine.learner.gradient(mine.samples, client_state.train)
        for name in trunk:
            trunk[name] += share * gradient[name]
        gradients.append({name: share * gradient[name] for name in SPEC.head})
    return trunk, gradients


def after_head_steps(client_states: Sequence[ClientState], body: Params, steps: int, beta: float) -> list[Params]:
    """The heads after gradient descent on the features of this body, in plain NumPy."""
    found = []
    for client_state, head in zip(client_states, heads(client_states), strict=True):
        mine = Personal.of(client_state, body, "torch")
        phi, labels = mine.learner.features(mine.samples, client_state.train), mine.samples.y[client_state.train]
        w, b = head["fc.weight"], head["fc.bias"]
        for _ in range(steps):
            logits = phi @ w.T + b
            p = np.exp(logits - logits.max(1, keepdims=True))
            p /= p.sum(1, keepdims=True)
            p[np.arange(len(labels)), labels] -= 1
            w, b = w - beta * p.T @ phi / len(labels), b - beta * p.mean(0)
        found.append({"fc.weight": w, "fc.bias": b})
    return found


def assert_close(found: Params, expected: Params, **bound: float) -> None:
    assert found.keys() == expected.keys()
    for name in expected:
        np.testing.assert_allclose(found[name], expected[name], **bound, err_msg=name)


BOUNDS = {"reference": (np.float64, 1e-10), "native": (np.float32, 2e-6)}  # the largest entry is about 1


@pytest.mark.parametrize("backend", BOUNDS)
@pytest.mark.parametrize("tau", [1, 2, 7])
def test_exact_gd(backend: str, tau: int) -> None:
    """t_pflego_exact_gd, t_pflego_tau1: with all clients and SGD, the joint step is one step of central GD."""
    dtype, bound = BOUNDS[backend]
    client_states, method = clients(backend, dtype), PFLEGO(tau=tau, beta=0.3, rho=0.2, chunk=6)
    state = start(method, client_states)
    with_heads(client_states, state.arrays[BODY])
    expected_heads = after_head_steps(client_states, state.arrays[BODY], tau - 1, 0.3)
    twins = clients(backend, dtype)
    for twin, head in zip(twins, expected_heads, strict=True):
        twin.arrays = {HEAD: head}
    body, head_gradients = central(twins, state.arrays[BODY])

    after = play(method, client_states, state)

    old = state.arrays[BODY]
    assert_close(after.arrays[BODY], {n: old[n] - 0.2 * g for n, g in body.items()}, atol=bound, rtol=0)
    for found, head, gradient in zip(heads(client_states), expected_heads, head_gradients, strict=True):
        assert_close(found, {n: head[n] - 0.2 * g for n, g in gradient.items()}, atol=bound, rtol=0)


def test_eq3_takes_longer_steps_of_the_head_and_the_same_of_the_body() -> None:
    """t_pflego_eq3_differs: without alpha_i the head moves 1 / alpha_i times as far."""
    found = {}
    for step in ("eq5", "eq3"):
        client_states, method = clients(), PFLEGO(tau=1, rho=0.2, head_step=step)
        state = start(method, client_states)
        with_heads(client_states, state.arrays[BODY])
        before = heads(client_states)
        after = play(method, client_states, state)
        found[step] = (
            after.arrays[BODY],
            [{n: new[n] - old[n] for n in new} for new, old in zip(heads(client_states), before, strict=True)],
        )
    assert_close(found["eq3"][0], found["eq5"][0], atol=0, rtol=0)
    for eq3, eq5, size in zip(found["eq3"][1], found["eq5"][1], SIZES, strict=True):
        assert_close(eq3, {n: move * sum(SIZES) / size for n, move in eq5.items()}, rtol=1e-9, atol=1e-15)


def test_the_mean_over_all_selections_is_the_full_gradient() -> None:
    """t_pflego_unbiased_subsets: of the server's direction, for r = 2 of 4."""
    method = PFLEGO(tau=1, rho=1.0)
    state = start(method, clients())
    with_heads(everyone := clients(), state.arrays[BODY])
    full, _ = central(everyone, state.arrays[BODY])
    pairs = list(combinations(range(4), 2))
    total = {name: np.zeros_like(value) for name, value in full.items()}
    for pair in pairs:
        client_states = clients()
        with_heads(client_states, state.arrays[BODY])
        after = play(method, client_states, state, pair)
        for name, value in after.arrays[BODY].items():
            total[name] += (state.arrays[BODY][name] - value) / len(pairs)
    assert_close(total, full, atol=1e-12, rtol=0)


COUNTED = {  # a plain step updates a Linear layer without storing its gradient
    "conv2d_forward": "forward",
    "linear_forward": "forward",
    "conv2d_grad_weight": "grad_weight",
    "linear_grad_weight": "grad_weight",
    "linear_update": "grad_weight",
}


class Counting:
    """Counts the reference backend's linear calls, by the layer whose weight they read or whose gradient they write."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: Counter[str] = Counter()
        functions = kernels.backend("reference").FUNCTIONS
        for name in COUNTED:
            counted = functions[name]._replace(record=self._counted(name, functions[name].record))
            monkeypatch.setitem(functions, name, counted)

    def _counted(self, name: str, record: Any) -> Any:
        """Return what a Program keeps of a call, with a count before it."""

        def counted(*args: Any) -> Any:
            function, values = record(*args)
            shape = args[1 if name.endswith("forward") else 2].shape
            part = "body" if name.startswith("conv") else {12: "fc1", 6: "head"}[shape[-1]]

            def call(*values: Any) -> None:
                self.calls[f"{part} {COUNTED[name]}"] += 1
                function(*values)

            return call, values

        return counted


@pytest.mark.parametrize("tau", [1, 2, 5, 50])
def test_the_body_is_passed_twice_forward_and_once_backward_whatever_tau(
    tau: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """t_pflego_trunk_calls: invariant 3. All samples fit in one chunk here."""
    counting = Counting(monkeypatch)
    client_states, method = clients(count=1), PFLEGO(tau=tau, beta=0.1)
    play(method, client_states, start(method, client_states))
    forward = 1 if tau == 1 else 2
    assert counting.calls["body forward"] == counting.calls["fc1 forward"] == forward
    assert counting.calls["body grad_weight"] == counting.calls["fc1 grad_weight"] == 1
    assert counting.calls["head forward"] == counting.calls["head grad_weight"] == tau


@pytest.mark.parametrize("tau", [2, 5])
def test_fedper_passes_the_body_tau_times(tau: int, monkeypatch: pytest.MonkeyPatch) -> None:
    counting = Counting(monkeypatch)
    client_states, method = clients(count=1), FedPer(epochs=tau, batch=1000, lr=0.1)
    play(method, client_states, start(method, client_states))
    assert counting.calls["body forward"] == counting.calls["body grad_weight"] == tau


@pytest.mark.parametrize("backend", BOUNDS)
def test_a_gradient_in_chunks_is_the_gradient(backend: str) -> None:
    """t_pflego_chunked_grad_equal holds up to the rounding of sums. Equal chunks give equal bits."""
    dtype, bound = BOUNDS[backend]
    client_state = clients(backend, dtype)[2]
    whole = client_state.learner.gradient(client_state.data, client_state.train)
    for chunk in (1, 3, 20):
        part = client_state.learner.gradient(client_state.data, client_state.train, chunk=chunk)
        assert_close(part, whole, atol=bound, rtol=0)
        assert part.loss_sum == pytest.approx(whole.loss_sum, rel=1e-5)
        again = client_state.learner.gradient(client_state.data, client_state.train, chunk=chunk)
        assert all(part[name].tobytes() == again[name].tobytes() for name in part)


def test_the_gradient_of_the_body_is_that_at_the_head_before_its_last_step() -> None:
    """Invariant 4, by beta = 0: then the only step is the joint one, and the body's gradient is at the first head."""
    client_states, method = clients(), PFLEGO(tau=3, beta=0.0, rho=0.2)
    state = start(method, client_states)
    with_heads(client_states, state.arrays[BODY])
    body, gradients = central(client_states, state.arrays[BODY])
    before = heads(client_states)
    after = play(method, client_states, state)
    old = state.arrays[BODY]
    assert_close(after.arrays[BODY], {n: old[n] - 0.2 * g for n, g in body.items()}, atol=1e-12, rtol=0)
    for new, head, gradient in zip(heads(client_states), before, gradients, strict=True):  # invariant 5
        assert_close(new, {n: head[n] - 0.2 * g for n, g in gradient.items()}, atol=1e-12, rtol=0)


def test_heads_of_clients_that_are_not_selected_keep_their_bits() -> None:
    """Invariant 6."""
    client_states, method = clients(), PFLEGO(tau=4, beta=0.3)
    state = start(method, client_states)
    with_heads(client_states, state.arrays[BODY])
    before = heads(client_states)
    play(method, client_states, state, [1, 3])
    for client, (new, old) in enumerate(zip(heads(client_states), before, strict=True)):
        same = all(new[name].tobytes() == old[name].tobytes() for name in old)
        assert same == (client in (0, 2))


def test_identical_clients_give_the_same_body_whatever_their_number() -> None:
    """Invariant 7."""
    found = []
    for count in (1, 3):
        twins = [replace(clients(count=1)[0], client=k) for k in range(count)]
        method = PFLEGO(tau=3, beta=0.2, rho=0.1)
        state = start(method, twins)
        for twin in twins:
            twin.arrays = {HEAD: {"fc.weight": np.full((2, 6), 0.1), "fc.bias": np.zeros(2)}}
        for _ in range(3):
            state = play(replace(method, head_step="eq3"), twins, state)
        found.append(state.arrays[BODY])
    assert_close(found[0], found[1], atol=1e-12, rtol=0)


def test_the_loss_never_rises_over_the_steps_of_the_head() -> None:
    """Invariant 8: a head on fixed features is a convex problem."""
    client_state = clients()[2]
    mine = Personal.of(client_state, {n: v for n, v in INITIAL.items() if n in SPEC.body}, "torch")
    losses = []
    for _ in range(20):
        losses.append(mine.learner.evaluate(mine.samples, client_state.train).loss_sum)
        mine.head_steps(1, SGD(0.1), 8)
    assert (np.diff(losses) < 0).all()


def test_a_head_has_the_classes_of_its_client_alone() -> None:
    client_states, method = clients(), PFLEGO(tau=2)
    play(method, client_states, start(method, client_states))
    assert [client_state.private[CLASSES] for client_state in client_states] == [
        list(classes) for classes in CLASSES_OF
    ]
    assert [client_state.arrays[HEAD]["fc.weight"].shape for client_state in client_states] == [
        (len(c), 6) for c in CLASSES_OF
    ]


def test_what_is_sent_are_the_parameters_of_the_body_and_no_head() -> None:
    """t_pflego_bytes, t_fedper_head_never_sent: 4 P_theta bytes of values each way, for FedPer too (invariant 9)."""
    count = sum(int(np.prod(SPEC.params[name].shape)) for name in SPEC.body)
    for method in (PFLEGO(tau=2), FedPer(epochs=2)):
        client_states = clients("native", np.float32)
        plan = method.plan(task(client_states), start(method, client_states), 1)[0]
        reply = method.train(client_states[plan.client], plan)
        for message in (plan, reply):
            assert message.payload.keys() == {BODY}
            assert message.payload[BODY].blocks.keys() == set(SPEC.body)
            assert message.payload[BODY].nbytes == 4 * count


def test_participants_weights_make_the_steps_longer_by_clients_over_participants() -> None:
    """The released code's: the shares of those selected add up to 1, and I/r is applied on top."""
    moves = {}
    for weight in ("all", "participants"):
        client_states, method = clients(), PFLEGO(tau=1, rho=0.1, shares=weight)
        state = start(method, client_states)
        with_heads(client_states, state.arrays[BODY])
        after = play(method, client_states, state, [0, 2])
        moves[weight] = {n: after.arrays[BODY][n] - v for n, v in state.arrays[BODY].items()}
    ratio = sum(SIZES) / (SIZES[0] + SIZES[2])
    assert_close(moves["participants"], {n: ratio * m for n, m in moves["all"].items()}, rtol=1e-9, atol=1e-15)


def test_the_number_of_all_examples_is_needed() -> None:
    with pytest.raises(ValueError, match=r"examples=0; expected the training examples of all clients"):
        PFLEGO().start(Task(SPEC, 4, 1), INITIAL)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tau": 0}, "tau=0; expected tau >= 1"),
        ({"chunk": 0}, "chunk=0; expected chunk >= 1"),
        ({"beta": -1.0}, r"beta=-1.0; expected a finite beta >= 0"),
        ({"rho": 0.0}, r"rho=0.0; expected a finite rho > 0"),
        ({"head_step": "eq4"}, "head_step=eq4; expected eq5 or eq3"),
    ],
)
def test_a_setting_that_is_out_of_range_is_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PFLEGO(**options)
