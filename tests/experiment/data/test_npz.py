"""npz files: the documented keys, their defaults, and every kind of damage."""

import io
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest

from edgefl.errors import DataError
from edgefl.experiment.data.catalog import load
from edgefl.experiment.data.column_choice import Reading
from edgefl.experiment.data.npz import read_npz

X = np.arange(24, dtype=np.uint8).reshape(4, 2, 3)
Y = np.array([0, 1, 2, 1])


def save(folder: Path, **arrays: object) -> Path:
    path = folder / "made.npz"
    np.savez_compressed(path, **{"x": X, "y": Y, **arrays})
    return path


def npy(array: np.ndarray, **options: bool) -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array(stream, array, **options)
    return stream.getvalue()


def zip_of(folder: Path, **members: bytes) -> Path:
    with zipfile.ZipFile(folder / "made.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        for key, content in members.items():
            archive.writestr(f"{key}.npy", content)
    return folder / "made.npz"


def test_defaults(tmp_path: Path) -> None:
    data = read_npz(save(tmp_path))
    assert data.name == "made" and data.x.shape == (4, 1, 2, 3) and data.y.tolist() == [0, 1, 2, 1]
    assert (data.classes, data.scale, data.shift) == (3, 1 / 255, 0.0)
    assert data.groups is None and data.x_test is None and data.partial is None


def test_every_key(tmp_path: Path) -> None:
    data = read_npz(
        save(tmp_path, x_test=X[:1], y_test=Y[:1], group=np.array([4, 4, 6, -1]), group_test=np.array([4]), classes=7,
             scale=0.5, shift=2.0, partial="one writer of ten"),
    )  # fmt: skip
    assert (data.classes, data.scale, data.shift, data.partial) == (7, 0.5, 2.0, "one writer of ten")
    assert data.groups is not None and data.groups.tolist() == [4, 4, 6, -1]
    assert data.groups_test is not None and data.groups_test.tolist() == [4]
    assert data.x_test is not None and data.x_test.tolist() == X[:1, np.newaxis].tolist()


def test_floats_stay_as_they_are(tmp_path: Path) -> None:
    data = read_npz(save(tmp_path, x=np.full((4, 3, 2, 2), 0.25)))
    assert data.x.dtype == np.float32 and data.input_shape == (3, 2, 2)
    assert (data.scale, data.shift) == (1.0, 0.0) and data.x.max() == 0.25


def test_features_and_ids_have_one_axis(tmp_path: Path) -> None:
    ids = read_npz(save(tmp_path, x=np.arange(20, dtype=np.int64).reshape(4, 5)))
    assert ids.x.dtype == np.float32 and ids.input_shape == (5,) and (ids.scale, ids.shift) == (1.0, 0.0)
    assert read_npz(save(tmp_path, x=np.zeros((4, 3)))).input_shape == (3,)


def test_column_major_arrays(tmp_path: Path) -> None:
    assert read_npz(save(tmp_path, x=np.asfortranarray(X))).x.tolist() == X[:, np.newaxis].tolist()


def test_quantised_features_and_class_names(tmp_path: Path) -> None:
    data = read_npz(save(tmp_path, lo=-13.8, hi=9.9, class_names=np.array(["yes", "no", "up", "down"])))
    assert data.classes == 4 and data.shift == -1.0 and 255 * data.scale + data.shift == 1.0


def test_named_group_wins(tmp_path: Path) -> None:
    path = save(tmp_path, speaker_train=np.array([0, 0, 1, 1]), drawer_train=np.array([9, 8, 7, 6]))
    speaker, drawer = read_npz(path).groups, read_npz(path, Reading(group="drawer")).groups
    assert speaker is not None and speaker.tolist() == [0, 0, 1, 1]
    assert drawer is not None and drawer.tolist() == [9, 8, 7, 6]
    with pytest.raises(DataError, match=r"no writer or writer_train among drawer_train, .*; expected group ids"):
        read_npz(path, Reading(group="writer"))


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": X.astype(np.int16)}, r"x is int16 \(4, 2, 3\); expected uint8 or float"),
        ({"x": X[0, 0]}, r"x is uint8 \(3,\)"),
        ({"x": np.full((4, 5), 2**24 + 1)}, r"x is from 16777217 to 16777217; expected ids of at most 16777216"),
        ({"y": Y.astype(complex)}, r"y is complex128 \(4,\); expected integers or texts \[N\], or numbers"),
        (
            {"y": Y.reshape(4, 1, 1, 1, 1)},
            r"y is int64 \(4, 1, 1, 1, 1\); expected integers or texts \[N\]",
        ),
        (
            {"y": np.array([0, 1, np.inf, 1])},
            r"y\[2\] is inf; expected finite float32 values: leave out",
        ),
        ({"y": Y[:3]}, r"y is int32 \(3,\); expected int32 \(4,\)"),
        ({"y": np.array([0, 1, 2**40, 1])}, "y goes from 0 to 1099511627776; expected 32-bit integers"),
        ({"classes": 2}, r"y\[2\] is 2; expected 0 <= label < 2"),
        ({"scale": 1.0}, "no shift; expected scale and shift together"),
        ({"scale": np.nan, "shift": 0.0}, "scale is float64 .*; expected one finite number"),
        ({"group": np.zeros(3, int)}, r"groups is int32 \(3,\)"),
    ],
)
def test_wrong_array_is_named(tmp_path: Path, arrays: dict[str, object], message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_npz(save(tmp_path, **arrays))


def test_missing_labels_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no array y or y_train among x; expected one of them"):
        read_npz(zip_of(tmp_path, x=npy(X)))


@pytest.mark.parametrize(
    ("member", "message"),
    [
        (npy(X)[:-1], "x: ends after 23 bytes of content; expected 24"),
        (npy(X) + b"\0", "x: has bytes after its content"),
        (b"\x93NUMPZ" + npy(X)[6:], "x: .*; expected an npy file"),
        (npy(X)[:30], "x: .*; expected an npy file"),
        (npy(np.array([{}] * 4, object), allow_pickle=True), "x: pickled objects of type object"),
        (npy(X).replace(b"(4, 2, 3)", b"(-4, 2,3)"), r"x: shape \(-4, 2, 3\)"),
    ],
)
def test_damaged_member_is_named(tmp_path: Path, member: bytes, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_npz(zip_of(tmp_path, x=member, y=npy(Y)))


def test_not_a_zip_is_named(tmp_path: Path) -> None:
    (tmp_path / "made.npz").write_bytes(b"not a zip")
    with pytest.raises(DataError, match=r"made\.npz: cannot be read .*expected an undamaged file"):
        read_npz(tmp_path / "made.npz")


def test_claimed_shape_is_not_allocated(tmp_path: Path) -> None:
    claim = npy(np.zeros((4, 222, 333), np.uint8)).replace(b"(4, 222, 333)", b"(4, 90000000)")
    tracemalloc.start()
    with pytest.raises(DataError, match="ends after 295704 bytes of content; expected 360000000"):
        read_npz(zip_of(tmp_path, x=claim, y=npy(Y)))
    assert tracemalloc.get_traced_memory()[1] < 8 << 20
    tracemalloc.stop()


def test_real_npz_with_speakers(real_data: Path) -> None:
    path = real_data / "speech_commands_testset_logmel.npz"
    if not path.is_file():
        pytest.skip(f"no {path}")
    data = load(path.name, real_data)
    assert (len(data), data.classes, data.input_shape) == (3989, 12, (1, 49, 40))
    assert data.groups is not None and data.groups.max() == 238


def header(text: bytes) -> bytes:
    """An npy file of version 1 whose header is any text."""
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


@pytest.mark.parametrize(
    "content",
    [
        header(b"{'descr': '|u1', 'fortran_order': False, 'shape': (1,"),  # tokenize.TokenError in numpy
        header(b"{'descr': [], 'fortran_order': False, 'shape': (1,)}"),
        header(b"(" * 200),
        header(b"\xff\xfe"),
        header(b"{'descr': '<U99999999999', 'fortran_order': False, 'shape': (1,)}"),
        header(b"{'descr': '|V0', 'fortran_order': False, 'shape': (-1,)}"),
        b"",
    ],
)
def test_a_header_that_numpy_stumbles_over_is_named(content: bytes, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"made\.npz: x"):
        read_npz(zip_of(tmp_path, x=content, y=npy(Y)))


def test_every_byte_of_a_file_may_be_wrong(tmp_path: Path) -> None:
    """The directory of a zip is where IndexError and struct.error come from."""
    good = save(tmp_path).read_bytes()
    read = refused = 0
    for at in range(0, len(good), 3):
        (tmp_path / "bad.npz").write_bytes(good[:at] + bytes([good[at] ^ 0x5A]) + good[at + 1 :])
        try:
            read_npz(tmp_path / "bad.npz")
            read += 1  # a date, a comment
        except DataError as error:
            assert "bad.npz" in str(error)
            refused += 1
    assert refused > read > 0


def test_one_wrong_label_makes_no_million_classes(tmp_path: Path) -> None:
    wrong = np.array([0, 1, 10**6, 1])
    with pytest.raises(DataError, match="y goes up to 1000000 with 4 examples; expected labels from 0, or the number"):
        read_npz(save(tmp_path, y=wrong))
    assert read_npz(save(tmp_path, y=wrong, classes=10**6 + 1)).classes == 10**6 + 1
    assert read_npz(save(tmp_path, y=np.array([0, 1, 999, 1]))).classes == 1000


@pytest.mark.parametrize("classes", [2.5, 0, -3, 2**31])
def test_a_number_of_classes_that_is_none_is_refused(classes: float, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"classes is .*; expected an integer in \[1, 2\^31\)"):
        read_npz(save(tmp_path, classes=classes))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e300])
@pytest.mark.parametrize("key", ["x", "x_test"])
def test_a_value_that_is_no_finite_float32_is_named_with_its_position(tmp_path: Path, value: float, key: str) -> None:
    x = np.zeros((5, 2, 3))
    x[3, 1, 2] = value
    others = {"x": np.zeros((5, 2, 3)), "y_test": np.zeros(5, np.int32)} if key == "x_test" else {}
    path = save(tmp_path, **{**others, key: x}, y=np.zeros(5, np.int32))
    with pytest.raises(DataError) as error:
        read_npz(path)
    assert str(error.value) == f"{path}: {key}[3, 0, 1, 2] is {np.float64(value)}; expected finite float32 values"


@pytest.mark.parametrize("scale", [1e39, -1e39])
def test_a_scale_that_no_input_survives_is_named(tmp_path: Path, scale: float) -> None:
    path = save(tmp_path, x=np.full((2, 2, 2), 9, np.uint8), y=np.zeros(2, np.int32), scale=scale, shift=0.0)
    with pytest.raises(
        DataError, match=r"values up to 9 with scale -?1e\+39 and shift 0; expected inputs that float32"
    ):
        read_npz(path)
