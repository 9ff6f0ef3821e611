"""Programs and memory of the CUDA backend: what is copied when, captured, given back and refused."""

from __future__ import annotations

import gc
from bisect import bisect_right
from typing import Any

import numpy as np
import pytest

from edgefl.errors import BackendError
from edgefl.kernels.cuda.device import CudaDevice
from edgefl.kernels.cuda.memory import DeviceMemory, Mapped
from edgefl.kernels.cuda.program import CudaProgram
from edgefl.learning import SGD, GraphLearner, Samples
from edgefl.models.graph import Graph, Model, Node
from edgefl.models.graph.operations import Linear
from edgefl.rng import INIT, stream

from .conftest import Seen


class Place:
    """A device, its memory, and arrays in it."""

    def __init__(self, cuda: Any) -> None:
        self.device = CudaDevice()
        self.memory = DeviceMemory(self.device)
        self._known = cuda.KNOWN

    def program(self) -> CudaProgram:
        return CudaProgram(self.device, self.memory, self._known)

    def array(self, values: np.ndarray) -> np.ndarray:
        made = self.memory.block(values.nbytes).view(values.dtype).reshape(values.shape)
        made[...] = values
        self.memory.wrote(made)
        return made

    def close(self) -> None:
        gc.collect()
        self.settle()
        self.device.close()

    def settle(self) -> None:
        """Give back what nobody has any more."""
        with self.device.used():
            pass


@pytest.fixture
def place(cuda: Any) -> Place:
    return Place(cuda)


def image(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((2, 5, 9), dtype=np.float32)


def test_arrays_of_a_block_are_used_where_they_are(place: Place, seen: Seen) -> None:
    x, y = place.array(image()), place.array(np.zeros_like(image()))
    program = place.program()
    program.append("relu_forward", x, y, None)
    seen.forget()
    program.run()
    assert seen.count("cuMemcpyHtoDAsync") == seen.count("cuMemcpyDtoHAsync") == 0
    assert not y.any()  # until it is fetched
    place.memory.fetch(y)
    assert np.array_equal(y, np.maximum(x, 0))


def test_only_the_bytes_of_a_view_are_copied(place: Place, seen: Seen) -> None:
    x = place.array(image())
    seen.forget()
    place.memory.wrote(x[0, 1:3])
    place.memory.fetch(x[1, 4])
    assert [call for call in seen.calls if "Memcpy" in call] == ["cuMemcpyHtoDAsync 72", "cuMemcpyDtoHAsync 36"]


def test_arrays_elsewhere_are_copied_when_they_have_changed(place: Place, seen: Seen) -> None:
    x, y = image(), np.zeros_like(image())
    program = place.program()
    program.append("relu_forward", x, y, None)
    program.run()
    seen.forget()
    program.run()
    copies = [call for call in seen.calls if "Memcpy" in call]
    size = y.nbytes if place.device.is_exact else 512
    assert copies == [f"cuMemcpyHtoDAsync {size}", f"cuMemcpyDtoHAsync {size}"]  # of y alone
    x[:] = image(1)
    program.run()
    assert np.array_equal(y, np.maximum(image(1), 0))


def test_overlapping_views_of_the_host_share_their_copy(place: Place) -> None:
    both = np.concatenate([image(), np.zeros_like(image())])
    x, y = both[:2], both[2:]
    program = place.program()
    program.append("relu_forward", x, y, None)
    program.append("relu_forward", both, both, None)
    program.run()
    assert np.array_equal(both, np.concatenate([np.maximum(image(), 0)] * 2))


def test_a_program_is_captured_when_it_runs_again(place: Place, seen: Seen) -> None:
    x, y = place.array(image()), place.array(np.zeros_like(image()))
    program = place.program()
    program.append("relu_forward", x, y, None)
    program.append("relu_forward", y, x, None)
    counts = []
    for _ in range(3):
        seen.forget()
        program.run()
        counts.append((seen.count("cuLaunchKernel"), seen.count("cuGraphInstantiate"), seen.count("cuGraphLaunch")))
    assert counts == [(2, 0, 0), (2, 1, 1), (0, 0, 1)]


@pytest.mark.parametrize("call", ["cuLaunchKernel", "cuStreamEndCapture", "cuGraphInstantiate"])
def test_a_capture_that_fails_leaves_no_graph(place: Place, seen: Seen, call: str) -> None:
    x, y = place.array(image()), place.array(np.zeros_like(image()))
    program = place.program()
    program.append("relu_forward", x, y, None)
    program.run()
    before = seen.live
    seen.forget()
    seen.fail(call)
    with pytest.raises(BackendError, match=call):
        program.run()
    assert seen.live == before


def test_kernels_are_loaded_before_they_are_captured(place: Place, seen: Seen) -> None:
    """The stand-in refuses others, as drivers before CUDA 12.3 do."""
    index, picked = np.zeros(2, np.int32), np.zeros((2, 2), np.float32)
    program = place.program()
    program.append("gather_rows", np.ones((6, 2), np.float32), index, 1.0, 0.0, picked)
    seen.forget()
    program.run_batches(index, np.zeros((3, 2), np.int32))
    calls = [call.split()[0] for call in seen.calls]
    begin = calls.index("cuStreamBeginCapture")
    assert calls[:begin].count("cuFuncGetAttribute") == 2
    assert "cuFuncGetAttribute" not in calls[begin:]


def test_steps_of_a_call_are_one_upload_and_a_launch_each(place: Place, seen: Seen) -> None:
    source, picked = place.array(np.arange(12, dtype=np.float32).reshape(6, 2)), np.zeros((2, 2), np.float32)
    total, index = place.array(np.zeros((2, 2), np.float32)), np.zeros(2, np.int32)
    program = place.program()
    program.append("gather_rows", source, index, 1.0, 0.0, picked)
    program.append("add", total, picked, total)
    batches = np.array([[0, 1], [5, 2], [3, 3]], np.int32)
    seen.forget()
    program.run_batches(index, batches)
    assert seen.count("cuGraphLaunch") == 3
    place.memory.fetch(total)
    assert total.tolist() == [[16, 19], [12, 15]]
    assert index.tolist() == [3, 3]
    assert picked.tolist() == [[6, 7], [6, 7]]


@pytest.mark.parametrize("wrong", [6, -1])
def test_batches_with_an_index_outside_are_refused_before_anything_runs(place: Place, seen: Seen, wrong: int) -> None:
    source, index = np.zeros((6, 2), np.float32), np.zeros(2, np.int32)
    picked = np.full((2, 2), 7, np.float32)
    program = place.program()
    program.append("gather_rows", source, index, 1.0, 0.0, picked)
    with pytest.raises(ValueError, match=f"contains {wrong}"):
        program.run_batches(index, np.array([[0, 1], [2, wrong]], np.int32))
    assert seen.count("cuLaunchKernel") == seen.count("cuGraphLaunch") == 0
    assert (picked == 7).all()


def test_ids_that_became_wrong_are_refused_at_every_run(place: Place) -> None:
    ids, dx = np.array([0, 2], np.int32), np.zeros_like(image())
    program = place.program()
    program.append("relu_backward", image(), np.full((2, 5, 2), 255, np.uint8), dx, ids)
    program.run()
    ids[:] = [1, 5]
    for _ in range(2):
        with pytest.raises(ValueError, match="channels contains 5"):
            program.run()
    ids[:] = [1, 4]
    dx[:] = 0
    program.run()
    assert dx.any(axis=(0, 2)).tolist() == [False, True, False, False, True]


def test_an_operation_without_a_kernel_is_refused_by_name(place: Place) -> None:
    x = np.zeros((2, 3, 4), np.float32)
    with pytest.raises(BackendError, match="to_steps has no CUDA kernel"):
        CudaProgram(place.device, place.memory, {}).append("to_steps", x, np.zeros((4, 2, 3), np.float32))


def test_what_is_no_longer_used_is_given_back(cuda: Any, seen: Seen) -> None:
    before = seen.live
    place = Place(cuda)
    x, y = place.array(image()), place.array(np.zeros_like(image()))
    program = place.program()
    program.append("relu_forward", x, y, np.zeros((2, 5, 2), np.uint8))
    for _ in range(3):
        program.run()
    program.run_batches(np.zeros(1, np.int32), np.zeros((4, 1), np.int32))
    del program, x, y
    place.close()
    assert seen.live == before


def test_a_view_keeps_its_block(place: Place, seen: Seen) -> None:
    before = seen.live
    part = place.array(image())[1, 2:4]
    gc.collect()
    place.settle()
    assert seen.live == before + 1
    place.memory.fetch(part)
    assert np.array_equal(part, image()[1, 2:4])


def test_a_view_is_found_while_other_blocks_go(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = sorted((place.memory.block(64) for _ in range(3)), key=lambda block: int(block.ctypes.data))
    last = blocks.pop()
    address = place.memory.find(last)

    def late(every: list[Mapped], key: tuple[int, int]) -> int:
        found = bisect_right(every, key)
        blocks.clear()
        return found

    monkeypatch.setattr("edgefl.kernels.cuda.memory.bisect_right", late)
    assert place.memory.find(last) == address


def test_what_is_sent_may_be_written_to_at_once(place: Place) -> None:
    x = place.array(image())
    x[...] = 0
    place.memory.fetch(x)
    assert np.array_equal(x, image())


def test_held_arrays_are_read_in_place_where_device_and_host_share_one_memory(cuda: Any, seen: Seen) -> None:
    """So are parts of them, while an array that reaches beyond one is copied. They are pinned as long as one of them is
    held.
    """
    seen.integrated(True)
    before, place = seen.live, Place(cuda)
    rows = np.concatenate([image(), image() + 1])
    seen.forget()
    held, part = place.memory.hold(rows[:3]), place.memory.hold(rows[1:2])
    assert held.ctypes.data == rows.ctypes.data
    assert not [call for call in seen.calls if "Memcpy" in call]
    beyond = place.memory.hold(rows[2:])
    assert not np.shares_memory(beyond, rows)
    del held
    place.settle()
    assert seen.count("cuMemHostUnregister") == 0
    for each, expected in ((part, rows[1:2]), (beyond, rows[2:])):
        y = place.array(np.zeros_like(expected))
        program = place.program()
        program.append("relu_forward", each, y, None)
        program.run()
        place.memory.fetch(y)
        assert np.array_equal(y, np.maximum(expected, 0))
    del part, beyond, each, program, y
    place.settle()
    assert seen.count("cuMemHostUnregister") == 1
    place.close()
    assert seen.live == before


@pytest.mark.parametrize("integrated", [False, True])
def test_an_array_between_two_words_is_held_on_whole_ones(cuda: Any, seen: Seen, integrated: bool) -> None:
    seen.integrated(integrated)
    place = Place(cuda)
    x = np.frombuffer(b"_" + image().tobytes(), np.float32, offset=1).reshape(image().shape)
    assert not x.flags.aligned
    held, y = place.memory.hold(x), place.array(np.zeros_like(image()))
    address = place.memory.find(held)
    assert address is not None
    assert address % held.itemsize == 0
    program = place.program()
    program.append("relu_forward", held, y, None)
    program.run()
    place.memory.fetch(y)
    assert np.array_equal(y, np.maximum(image(), 0))
    del held, program
    place.close()


@pytest.mark.parametrize("call", ["cuMemHostRegister", "cuMemHostGetDevicePointer"])
def test_what_cannot_be_pinned(cuda: Any, seen: Seen, call: str) -> None:
    seen.integrated(True)
    before, place, x = seen.live, Place(cuda), image()
    seen.fail(call)
    if call == "cuMemHostRegister":  # such as a file's pages
        assert not np.shares_memory(place.memory.hold(x), x)
    else:
        with pytest.raises(BackendError, match=call):
            place.memory.hold(x)
    place.close()
    assert seen.live == before


def test_a_learner_holds_no_samples_where_device_and_host_share_one_memory(
    cuda: Any, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = Graph((6,), (Node("fc", Linear(6, 3), ("input",)),))
    x = np.random.default_rng(1).standard_normal((8, 6)).astype(np.float32)
    fitted = []
    for shares in (False, True):
        monkeypatch.setattr(cuda.DEVICE, "is_integrated", shares)
        learner = GraphLearner(Model(graph, graph.init(stream(1, INIT))), "cuda")
        learner.fit(Samples(x, np.arange(8, dtype=np.int32) % 3), [np.arange(8, dtype=np.int32)] * 2, SGD(0.1))
        assert ("samples" in learner.memory()) != shares
        fitted.append(learner.read()["fc.weight"].copy())
    assert np.array_equal(*fitted)


def test_held_arrays_are_sent_once(place: Place, seen: Seen) -> None:
    x = image()
    held = place.memory.hold(x)
    assert place.memory.hold(held) is held
    y = place.array(np.zeros_like(x))
    program = place.program()
    program.append("relu_forward", held, y, None)
    seen.forget()
    program.run()
    program.run()
    assert not [call for call in seen.calls if "Memcpy" in call]
    place.memory.fetch(y)
    assert np.array_equal(y, np.maximum(x, 0))
