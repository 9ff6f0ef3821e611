"""The thread pool: its size changes no result, callers do not disturb each other, forks work. Packing scratch is here,
too.
"""

import os
import threading

import numpy as np
import pytest

native = pytest.importorskip("edgefl.kernels.native", reason="the native extension was not built (no C++ compiler)")


@pytest.fixture(autouse=True)
def restored():
    before = native.threads()
    yield
    native.set_threads(before)


def batch_norm(threads):
    """Return every output of a forward and a backward pass that is large enough to be spread over the pool."""
    native.set_threads(threads)
    rng = np.random.default_rng(0)
    x, dy = (rng.standard_normal((16, 9, 33, 31), np.float32) for _ in range(2))
    weight, bias, mean, var = (rng.random(9, np.float32) for _ in range(4))
    y, xhat, dx, inv_std = np.empty_like(x), np.empty_like(x), np.empty_like(x), np.empty(9, np.float32)
    dweight, dbias = np.empty(9, np.float32), np.empty(9, np.float32)
    native.batchnorm_forward(x, weight, bias, mean, var, y, xhat, inv_std, 1e-5, 0.1)
    native.batchnorm_backward(dy, xhat, weight, inv_std, dx, dweight, dbias, None, None)
    return [array.tobytes() for array in (y, xhat, mean, var, dx, dweight, dbias)]


def layers(threads):
    """Outputs of convolution, group norm, pooling and SGD."""
    native.set_threads(threads)
    rng = np.random.default_rng(1)
    x, weight = rng.standard_normal((8, 6, 32, 32), np.float32), rng.standard_normal((16, 6, 3, 3), np.float32)
    y = np.empty((8, 16, 32, 32), np.float32)
    window = ((1, 1), (1, 1), (1, 1), 1)
    native.conv2d_forward(x, weight, None, y, *window)
    dx, dw = np.empty_like(x), np.empty_like(weight)
    native.conv2d_grad_input(y, weight, dx, *window, None, None)
    native.conv2d_grad_weight(x, y, dw, *window, None, None, 6)
    scale, inv_std, z, zhat = np.ones(16, np.float32), np.empty((8, 2), np.float32), np.empty_like(y), np.empty_like(y)
    native.groupnorm_forward(y, scale, scale, z, zhat, inv_std, 2, 1e-5)
    dz, dscale, dbias = np.empty_like(z), np.empty_like(scale), np.empty_like(scale)
    native.groupnorm_backward(z, zhat, scale, inv_std, dz, dscale, dbias, 2, None, None)
    pooled, codes = np.empty((8, 16, 16, 16), np.float32), np.empty((8, 16, 16, 16), np.uint8)
    native.maxpool_forward(z, pooled, codes, (2, 2), (2, 2), (0, 0))
    return [array.tobytes() for array in (y, dx, dw, z, dz, dscale, dbias, pooled, codes)]


@pytest.mark.parametrize("run", [batch_norm, layers])
def test_results_do_not_depend_on_the_number_of_threads(run):
    alone = run(1)
    for threads in (2, 3, 7):
        assert run(threads) == alone


def test_set_threads_is_read_back():
    native.set_threads(5)
    assert native.threads() == 5


@pytest.mark.parametrize("threads", [0, -1, 1025])
def test_a_pool_of_no_threads_or_too_many_is_refused(threads):
    with pytest.raises(ValueError, match=f"set_threads: threads has value {threads}; expected 1 to 1024"):
        native.set_threads(threads)


def test_concurrent_callers_get_their_own_results():
    native.set_threads(3)
    x = np.arange(300_000, dtype=np.float32)
    wrong = []

    def call(k):
        y, term = np.empty_like(x), np.full_like(x, k)
        for _ in range(30):
            native.add(x, term, y)
            if not (y == x + k).all():
                wrong.append(k)

    callers = [threading.Thread(target=call, args=(k,)) for k in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert wrong == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_can_use_the_pool():
    native.set_threads(2)
    x = np.arange(300_000, dtype=np.float32)
    y = np.empty_like(x)
    native.add(x, x, y)  # the parent's threads are running now
    child = os.fork()
    if child == 0:
        y[:] = 0
        native.add(x, x, y)
        os._exit(0 if (y == 2 * x).all() and native.threads() == 2 else 1)
    assert os.waitpid(child, 0)[1] == 0
    native.add(x, x, y)
    assert (y == 2 * x).all()


def test_scratch_is_counted_and_reused():
    x, weight = np.zeros((4, 8, 16, 16), np.float32), np.zeros((8, 8, 3, 3), np.float32)
    y = np.empty_like(x)

    def step():
        native.conv2d_forward(x, weight, None, y, (1, 1), (1, 1), (1, 1), 1)
        inv_std, scale = np.empty((4, 2), np.float32), np.ones(8, np.float32)
        native.groupnorm_backward(y, y, scale, inv_std, y.copy(), scale.copy(), scale.copy(), 2, None, None)
        return native.scratch_bytes()

    native.set_threads(1)
    first = step()
    assert first > 0
    assert step() == first


def test_what_a_call_needs_is_what_it_then_takes():
    x, weight = np.ones((4, 8, 16, 16), np.float32), np.ones((8, 8, 3, 3), np.float32)
    y = np.zeros_like(x)
    call = (x, weight, None, y, (1, 1), (1, 1), (1, 1), 1)
    readings = []

    def measure():  # in a thread of its own, which holds no scratch yet
        before = native.scratch_bytes()
        readings.append(native.scratch_needed("conv2d_forward", *call))
        readings.append(native.scratch_bytes() - before)
        native.conv2d_forward(*call)
        readings.append(native.scratch_bytes() - before)

    thread = threading.Thread(target=measure)
    thread.start()
    thread.join()
    needed, held_while_counting, held_after = readings
    assert needed == held_after > held_while_counting == 0
    assert y[0, 0, 8, 8] == 72


def test_counting_refuses_wrong_arguments_and_ends():
    x, weight = np.ones((1, 3), np.float32), np.ones((2, 3), np.float32)
    with pytest.raises(ValueError, match="y"):
        native.scratch_needed("linear_forward", x, weight, None, np.empty((1, 3), np.float32))
    y = np.empty((1, 2), np.float32)
    assert native.scratch_needed("linear_forward", x, weight, None, y) >= 0
    native.linear_forward(x, weight, None, y)
    assert y.tolist() == [[3, 3]]


def workers_processors(before):
    """Return the processors that each thread which has started since may use."""
    started = set(os.listdir("/proc/self/task")) - before
    return [os.sched_getaffinity(int(thread)) for thread in started]


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity on this platform")
def test_a_worker_on_its_caller_s_processor_moves_to_another():
    both = sorted(os.sched_getaffinity(0))[:2]
    if len(both) < 2:
        pytest.skip("one processor")
    x = np.arange(300_000, dtype=np.float32)
    y, seen = np.empty_like(x), []

    def call():  # in a thread of its own on the first processor, where its worker begins, too
        os.sched_setaffinity(0, both[:1])
        before = set(os.listdir("/proc/self/task"))
        for _ in range(50_000):
            native.add(x, x, y)
            seen[:] = workers_processors(before)
            if seen and both[0] not in seen[0]:
                return

    native.set_threads(2)
    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    assert len(seen) == 1 and both[0] not in seen[0] and both[1] in seen[0]
    assert (y == 2 * x).all()
