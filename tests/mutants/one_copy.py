"""Mutants of what holds frozen parameters once: shared arrays, files in pieces, packed models, and limits."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

SHARED, FILES = "tests/learning/test_shared_frozen.py", "tests/system/test_safetensors_files.py"
PACKED, CONNECTION = "tests/protocol/wire/test_packed_model.py", "tests/protocol/wire/test_connection.py"
BOUNDS, STATES = "tests/deployment/device/test_device_bounds.py", "tests/methods/rounds/test_state_file.py"

MUTANTS = (
    Mutant(
        "shared-frozen-written",
        "edgefl/learning/running/parameter_access.py",
        "if (name := next(differs, None)) is not None:",
        "if False:",
        "other values of a shared parameter are passed over",
        SHARED,
    ),
    Mutant(
        "shared-with-gaps",
        "edgefl/learning/running/parameter_store.py",
        "value.dtype == self.dtype and value.flags.c_contiguous",
        "value.dtype == self.dtype",
        "kernels read an array that does not lie in order",
        SHARED,
    ),
    Mutant(
        "equal-first-piece",
        "edgefl/system/safetensors_files.py",
        "np.array_equal(values[at:][: len(read)], read)",
        "np.array_equal(values[: len(read)], read)",
        "each piece of a file is compared with the first piece of an array",
        FILES,
    ),
    Mutant(
        "packed-range",
        "edgefl/protocol/wire/packed_model.py",
        "[first - start : end - start]",
        "[first - start :]",
        "a range of a packed model goes on to the end of its parameter",
        PACKED,
    ),
    Mutant(
        "frozen-in-frames",
        "edgefl/protocol/wire/connection.py",
        "frame_cap(message.model_bytes - frozen)",
        "frame_cap(message.model_bytes)",
        "a frame may have the size of the frozen parameters",
        CONNECTION,
    ),
    Mutant(
        "frozen-copies",
        "edgefl/deployment/device/request_limits.py",
        "self._left(size - frozen, frozen)",
        "self._left(size, 0)",
        "copies of frozen parameters are set aside at Welcome",
        BOUNDS,
    ),
    Mutant(
        "base-unchecked",
        "edgefl/methods/rounds/state_file.py",
        "            check_sha256(file.with_name(BASE), metadata[BASE_DIGEST])\n",
        "            pass\n",
        "a run is resumed with damaged frozen parameters",
        STATES,
    ),
)
