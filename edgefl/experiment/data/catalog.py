"""The data sets that edgefl knows by name: their files, the addresses and digests of the files, and their readers.

Sources of the digests
    MNIST           the four files as mirrored for PyTorch, with MD5s in torchvision.datasets.MNIST
    Fashion-MNIST   README of github.com/zalandoresearch/fashion-mnist
    EMNIST          gzip.zip of NIST, with its MD5 in torchvision.datasets.EMNIST
    CIFAR           https://www.cs.toronto.edu/~kriz/cifar.html
    Speech          v0.02, with its SHA-256 in torchaudio.datasets.SPEECHCOMMANDS and in TensorFlow Datasets
A digest is checked after a download. Files found on this machine are checked by their format instead, because repacked
copies (Debian's) have the same content and another digest.
"""

from __future__ import annotations

import os
from pathlib import Path

from edgefl.errors import DataError, expected_name
from edgefl.experiment.data.cifar import CifarSet
from edgefl.experiment.data.column_choice import Reading
from edgefl.experiment.data.dataset import DataSet, Shape
from edgefl.experiment.data.file_formats import FILES, looks_like_path, read_file_or_folder, refuse_path
from edgefl.experiment.data.group_names import group_names
from edgefl.experiment.data.idx import IdxSet
from edgefl.experiment.data.images import has_images, read_images
from edgefl.experiment.data.leaf import has_leaf, read_leaf
from edgefl.experiment.data.locate import ENVIRONMENT, candidates, holds, roots
from edgefl.experiment.data.npz import read_npy, read_npz
from edgefl.experiment.data.published import Download, PublishedDataSet
from edgefl.experiment.data.speech import SpeechSet

PACKAGED: dict[str, Shape] = {"digits": (1, 8, 8), "spoken-digits": (1, 25, 32)}  # files in the folder of this module


def load(
    name: str,
    data_dir: str | os.PathLike[str] | None = None,
    *,
    reading: Reading | None = None,
    fetch: bool = True,
    progress: bool = True,
) -> DataSet:
    """Load the data set of this name: one of NAMES, or the path of a file or folder of your own (FILES).

    data_dir  directory that is searched first, before $EDGEFL_DATA, the cache and the data sets of the system. Relative
              paths are searched for in these directories as well
    reading   how a file of your own is read
    fetch     whether a published data set that is not found is downloaded, into data_dir, else $EDGEFL_DATA, else the
              cache
    progress  whether a bar is shown during the download
    Raises    DataError if the name is unknown, if nothing is found (the error lists the directories), or if a file is
              damaged
    """
    if name in NAMES and reading is not None:
        reading.check(f"data={name}")
    if name in PACKAGED:
        return read_npz(Path(__file__).with_name(f"{name}.npz"))
    if name in PUBLISHED:
        return load_published(PUBLISHED[name], roots(data_dir), fetch=fetch, progress=progress)
    for location in [Path(name).expanduser(), *(root / name for root in roots(data_dir))]:
        if (found := read_file_or_folder(location, reading, _read_folder)) is not None:
            return found
    if looks_like_path(name):
        refuse_path(name, roots(data_dir))
    looked = ", ".join(str(root) for root in roots(data_dir))
    raise DataError(f"data set {name!r}; {expected_name(name, NAMES, f'{FILES}, here or in {looked}')}")


def groups_of_file(name: str, data_dir: str | os.PathLike[str] | None = None) -> tuple[str, ...]:
    """Return the names of the arrays or columns by which a user's file can say whom each sample comes from. Only the
    names are read. A file that is missing or cannot be read gives an empty result.
    """
    for location in [Path(name).expanduser(), *(root / name for root in roots(data_dir))]:
        for file in (location, location / "x.npy"):
            if file.is_file():
                return group_names(file)
    return ()


def _read_folder(location: Path, reading: Reading | None) -> DataSet:
    """Read a folder of arrays, of images, of LEAF files, or of spoken words, depending on what is in it."""
    if (location / "x.npy").is_file():
        return read_npy(location / "x.npy", reading)
    if has_leaf(location):
        return read_leaf(location, reading)
    if has_images(location):
        return read_images(location, reading)
    if reading is not None:
        reading.check(f"{location}, a folder of sounds,")
    return SpeechSet(name=location.name).read(location)


def shape_of(name: str) -> Shape | None:
    """Return the shape of an example of a data set by name, without reading its files. Return None if only the files
    tell the shape.
    """
    if name in PUBLISHED:
        return PUBLISHED[name].reader.input_shape
    return PACKAGED.get(name)


def load_published(
    item: PublishedDataSet, searched: list[Path], *, fetch: bool = True, progress: bool = True
) -> DataSet:
    """Read `item` from the first folder of `searched` that has its files, or download it into the first folder."""
    locations = candidates(searched, item.folders, item.archive)
    for location in locations:
        if holds(location, item.reader.files):
            return item.reader.read(location)
    try:
        if not fetch:
            raise DataError("downloads are switched off")
        location = _fetch(item, searched[0], progress)
    except DataError as error:
        looked = ", ".join(str(location) for location in locations)
        raise DataError(
            f"{item.reader.name}: not found in {looked}, and the download failed ({error}); "
            f"expected the published files there, or a folder with these files as data_dir or ${ENVIRONMENT}"
        ) from error
    return item.reader.read(location)


def _fetch(item: PublishedDataSet, root: Path, progress: bool) -> Path:
    from edgefl.experiment.data.download import download  # download.py says why here

    folder = root if item.archive else root / item.folders[0]
    for wanted in item.downloads:
        if not (folder / wanted.file).is_file():
            download(wanted, folder, progress=progress)
    return folder / item.archive if item.archive else folder


def _four(base: str, md5s: tuple[str, str, str, str]) -> tuple[Download, ...]:
    files = IdxSet("", 0, 0, 0).files
    return tuple(Download(f"{base}/{file}.gz", f"md5:{md5}") for file, md5 in zip(files, md5s, strict=True))


def _emnist(split: str, classes: int, train_count: int, test_count: int, first_label: int = 0) -> PublishedDataSet:
    reader = IdxSet(
        f"emnist-{split}", classes, train_count, test_count, f"emnist-{split}-train", f"emnist-{split}-test",
        first_label=first_label, transposed=True,
    )  # fmt: skip
    archive = Download("https://biometrics.nist.gov/cs_links/EMNIST/gzip.zip", "md5:58c8d27c78d21e728a6bc7b3cc06412e")
    return PublishedDataSet(reader, ("EMNIST/raw", "emnist"), (archive,), "gzip.zip")


def _cifar(reader: CifarSet, folder: str, archive: str, md5: str) -> PublishedDataSet:
    return PublishedDataSet(
        reader, (folder,), (Download(f"https://www.cs.toronto.edu/~kriz/{archive}", f"md5:{md5}"),), archive
    )


_MNIST = PublishedDataSet(
    IdxSet("mnist", 10, 60_000, 10_000),
    ("MNIST/raw", "mnist"),
    _four(
        "https://ossci-datasets.s3.amazonaws.com/mnist",
        ("f68b3c2dcbeaaa9fbdd348bbdeb94873", "d53e105ee54ea40749a09fcbcd1e9432",
         "9fb629c4189551a2d022fa330f9573f3", "ec29112dd5afa0611ce80d1b7f02629c"),
    ),
)  # fmt: skip
_FASHION_MNIST = PublishedDataSet(
    IdxSet("fashion-mnist", 10, 60_000, 10_000),
    ("FashionMNIST/raw", "fashion-mnist"),
    _four(
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com",
        ("8d4fb7e6c68d591d4c3dfef9ec88bf0d", "25c81989df183df01b3e8a0aad5dffbe",
         "bef4ecab320f06d8554ea6380940ec79", "bb300cfdad3c16e7a12a480ee83cd310"),
    ),
)  # fmt: skip
_SPEECH = PublishedDataSet(
    SpeechSet(),
    ("SpeechCommands/speech_commands_v0.02", "speech_commands_v0.02"),
    (
        Download(
            "http://download.tensorflow.org/data/speech_commands_v0.02.tar.gz",
            "sha256:af14739ee7dc311471de98f5f9d2c9191b18aedfe957f4a6ff791c709868ff58",
        ),
    ),
    "speech_commands_v0.02.tar.gz",
)
_BATCHES = tuple(f"data_batch_{i}.bin" for i in range(1, 6))
_CIFAR10 = CifarSet("cifar10", 10, 1, _BATCHES, 10_000, "test_batch.bin", 10_000)
_CIFAR100 = CifarSet("cifar100", 100, 2, ("train.bin",), 50_000, "test.bin", 10_000)

PUBLISHED = {
    item.reader.name: item
    for item in (
        _MNIST,
        _FASHION_MNIST,
        _emnist("byclass", 62, 697_932, 116_323),
        _emnist("bymerge", 47, 697_932, 116_323),
        _emnist("balanced", 47, 112_800, 18_800),
        _emnist("letters", 26, 124_800, 20_800, first_label=1),
        _emnist("digits", 10, 240_000, 40_000),
        _emnist("mnist", 10, 60_000, 10_000),
        _cifar(_CIFAR10, "cifar-10-batches-bin", "cifar-10-binary.tar.gz", "c32a1d4ab5d03f1284b67883e8d87530"),
        _cifar(_CIFAR100, "cifar-100-binary", "cifar-100-binary.tar.gz", "03b5dce01913d631647c71ecec9e9cb8"),
        _SPEECH,
    )
}
NAMES = (*PACKAGED, *PUBLISHED)
