"""Builds the two native libraries: libedgefl.so, the C ABI with no Python in it, and edgefl._core on top of it
(csrc/native_build.py). The image of the CUDA kernels is built where a GPU is, or where EDGEFL_CUDA_TARGETS names
processors, PTX or all (scripts/cuda.py). EDGEFL_CUDA_IMAGES names a folder with images that are there.

The commit that is built is written into edgefl/build.txt (edgefl/system/build_id.py), which an sdist brings along.

All are optional: without a C++ compiler the install succeeds and edgefl uses numba or numpy instead.
Only the baseline instruction set is compiled in; the files in csrc/isa open regions for more, chosen at run time.
Metadata is in pyproject.toml, except for the description, which is README with addresses (scripts/package_page.py).
"""

import os
import shutil
import subprocess
import sys
import sysconfig
from glob import glob
from pathlib import Path

import pybind11
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py
from setuptools.command.editable_wheel import editable_wheel
from setuptools.command.sdist import sdist

sys.path.insert(0, "csrc")
sys.path.insert(0, "scripts")
import native_build  # setup.py runs in its folder
import package_page
import server_stubs

LIBRARY, MODULE = "edgefl.libedgefl", "edgefl._core"
IMAGES, TARGETS = "EDGEFL_CUDA_IMAGES", "EDGEFL_CUDA_TARGETS"
GPUS = ("/dev/nvidiactl", "/dev/nvhost-gpu", "/dev/nvgpu")  # a driver's files: of a card, and of a Jetson


def write_commit() -> None:
    """The commit of the checkout into edgefl/build.txt. Sources without a checkout keep the file that they have."""
    if not os.path.exists(".git"):
        return
    describe = ["git", "describe", "--always", "--dirty", "--abbrev=10", "--exclude=*"]
    try:
        found = subprocess.run(describe, capture_output=True, text=True, check=True).stdout.strip().replace("-", ".")
    except (OSError, subprocess.CalledProcessError):
        found = ""  # without git the commit is not known, and one of before would be wrong
    try:
        with open(os.path.join("edgefl", "build.txt"), "w") as file:
            file.write(f"{found}\n")
    except OSError as error:
        print(f"edgefl: the commit was not written ({error}); this build will not name it.")


class BuildWithCommit(build_py):
    """build_py that writes the commit first."""

    def run(self) -> None:
        write_commit()
        super().run()


class SdistWithCommit(sdist):
    """sdist that writes the commit first."""

    def run(self) -> None:
        write_commit()
        super().run()


def ready_images() -> list[str]:
    """Files of the folder that EDGEFL_CUDA_IMAGES names. Raises SystemExit if it names one without any."""
    folder = os.environ.get(IMAGES)
    found = glob(os.path.join(folder, "kernels.*")) if folder else []
    if folder and not found:
        raise SystemExit(f"edgefl: {IMAGES}={folder} has no kernels.*; expected a folder that scripts/cuda.py wrote")
    return found


class BuildNative(build_ext):
    """build_ext that leaves the compiling to ninja, and says so in one line if there is no compiler."""

    def run(self) -> None:
        images = ready_images()
        super().run()
        self.build_cuda(images)

    def get_ext_filename(self, fullname: str) -> str:
        if fullname.endswith(LIBRARY.split(".")[-1]):
            return os.path.join(*fullname.split(".")) + ".so"
        return super().get_ext_filename(fullname)

    def build_extensions(self) -> None:
        folder, module = os.path.split(self.get_ext_fullpath(MODULE))
        places = native_build.Places(
            objects=os.path.join("build", f"native-{self.plat_name}"), out=folder, suffix=module.removeprefix("_core")
        )
        paths = sysconfig.get_paths()
        includes = list(dict.fromkeys([pybind11.get_include(), paths["include"], paths["platinclude"]]))
        native_build.generate()
        try:
            native_build.build(native_build.Compiler.of_environment(includes), places)
        except (OSError, subprocess.CalledProcessError) as error:
            print(getattr(error, "stdout", None) or "", file=sys.stderr)
            print(
                f"edgefl: the native kernels were not built ({error}); expected g++ 8 or clang 10. numba or numpy will "
                "serve.",
                file=sys.stderr,
            )

    def build_cuda(self, images: list[str]) -> None:
        """Copy the images that are there, or build them where somebody asked for them or a GPU is."""
        folder = os.path.dirname(self.get_ext_fullpath("edgefl.kernels.cuda.kernels"))
        targets = os.environ.get(TARGETS)
        wanted = targets is not None or any(map(os.path.exists, GPUS))
        if self.dry_run or not (images or (wanted and shutil.which("nvcc"))):
            return
        os.makedirs(folder, exist_ok=True)
        if images:
            for image in images:
                shutil.copy(image, folder)
            return
        image = os.path.join(folder, "kernels.fatbin.xz")
        made = subprocess.run([sys.executable, "scripts/cuda.py", "--targets", targets or "", "--out", image])
        if made.returncode:
            print("edgefl: the CUDA kernels were not built; nvcc failed. EDGEFL_KERNELS=cuda will be refused.")


class EditableTyped(editable_wheel):
    """editable_wheel that leads to this folder by a path, which type checkers follow, and not by an import hook.

    setuptools writes a path if all packages lie where their names say. So edgefl.server, which edgefl/_finder.py finds,
    is not named here, and type checkers find its stubs. `--config-settings editable_mode=strict` is left as it is.
    """

    def finalize_options(self) -> None:
        if not self.mode:
            kept = [name for name in self.distribution.packages if not name.startswith("edgefl.server")]
            self.distribution.packages, self.distribution.package_dir = kept, {"": "."}
        super().finalize_options()

    def run(self) -> None:
        if not self.mode:
            server_stubs.link_stubs(Path.cwd())
        super().run()


COMMANDS = {
    "build_ext": BuildNative,
    "build_py": BuildWithCommit,
    "editable_wheel": EditableTyped,
    "sdist": SdistWithCommit,
}
setup(
    ext_modules=[Extension(name, [], optional=True) for name in (LIBRARY, MODULE)],
    cmdclass=COMMANDS,
    long_description=package_page.description(),
    long_description_content_type="text/markdown",
)
