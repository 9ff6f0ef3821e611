"""Builds the two native extensions: libedgefl.so, the C ABI with no Python in it, and edgefl._core on top of it; and,
where there is nvcc, the image of the CUDA kernels (scripts/cuda.py; EDGEFL_CUDA_TARGETS names processors, or PTX;
EDGEFL_CUDA_IMAGES, a folder with images that are there).

The commit that is built is written into edgefl/build.txt (edgefl/system/build_id.py), which an sdist brings along.

All are optional: without a C++ compiler the install succeeds and edgefl uses numba or numpy instead.
Only the baseline instruction set is compiled in; the files in csrc/isa open regions for more, chosen at run time.
Metadata is in pyproject.toml.
"""

import os
import platform
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from glob import glob

import pybind11
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

LIBRARY = "edgefl.libedgefl"
IMAGES = "EDGEFL_CUDA_IMAGES"
STANDARD = "-std=c++2a"  # C++17 with designated initialisers; g++ 8 and 9 (ARM boards) know C++20 by this name only
ARITHMETIC = ["-O3", "-ffp-contract=off", "-fno-math-errno"]
COMPILE = [STANDARD, "-g0", "-pthread", "-fvisibility=hidden", "-Wall", "-Wextra", *ARITHMETIC]
LINK = ["-pthread", "-Wl,-s"] if platform.system() == "Linux" else ["-pthread"]
COMPILER_BYTES = 512 << 20  # what one takes for the largest file
MEMORY_BYTES = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
JOBS = max(1, min(os.cpu_count() or 1, MEMORY_BYTES // COMPILER_BYTES))


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
    """build_ext with a plain file name for the C library, compilers side by side, and a clear word if there is none."""

    def get_ext_filename(self, fullname: str) -> str:
        if fullname.endswith(LIBRARY.split(".")[-1]):
            return os.path.join(*fullname.split(".")) + ".so"
        return super().get_ext_filename(fullname)

    def run(self) -> None:
        images = ready_images()
        super().run()
        self.build_cuda(images)

    def build_cuda(self, images: list[str]) -> None:
        folder = os.path.dirname(self.get_ext_fullpath("edgefl.kernels.cuda.kernels"))
        if self.dry_run or not (images or shutil.which("nvcc")):
            return
        os.makedirs(folder, exist_ok=True)
        if images:
            for image in images:
                shutil.copy(image, folder)
            return
        targets, image = os.environ.get("EDGEFL_CUDA_TARGETS", ""), os.path.join(folder, "kernels.fatbin.xz")
        made = subprocess.run([sys.executable, "scripts/cuda.py", "--targets", targets, "--out", image])
        if made.returncode:
            print("edgefl: the CUDA kernels were not built; nvcc failed. EDGEFL_KERNELS=cuda will be refused.")

    def build_extensions(self) -> None:
        compile_one = self.compiler.compile

        def compile_all(sources: list[str], **options: object) -> list[str]:
            with ThreadPoolExecutor(JOBS) as pool:
                objects = pool.map(lambda source: compile_one([source], **options), sources)
                return [path for paths in objects for path in paths]

        self.compiler.compile = compile_all
        super().build_extensions()

    def build_extension(self, ext: Extension) -> None:
        if ext.name != LIBRARY:
            ext.library_dirs = [os.path.dirname(os.path.abspath(self.get_ext_fullpath(LIBRARY)))]
        try:
            super().build_extension(ext)
        except Exception as error:
            print(f"edgefl: {ext.name} was not built ({error}); expected g++ 8 or clang 10. numba or numpy will serve.")
            raise


GENERATED = os.path.join("build", "generated")  # what follows from the table of operations
subprocess.run([sys.executable, os.path.join("csrc", "generate.py"), GENERATED], check=True)
HEADERS = [*glob("csrc/**/*.h", recursive=True), *glob(f"{GENERATED}/**/*.h", recursive=True)]
INCLUDES = [GENERATED, "csrc"]  # in this order: csrc/edgefl.h has no prototypes
library = Extension(
    LIBRARY,
    sorted(
        path for part in ("csrc/api/", "csrc/core/", "csrc/isa/", f"{GENERATED}/api_") for path in glob(f"{part}*.cc")
    ),
    include_dirs=INCLUDES,
    depends=HEADERS,
    extra_compile_args=COMPILE,
    extra_link_args=[*LINK, "-Wl,-soname,libedgefl.so"] if platform.system() == "Linux" else LINK,
    optional=True,
)
core = Extension(
    "edgefl._core",
    sorted(["csrc/python.cc", *glob("csrc/python/*.cc"), *glob(f"{GENERATED}/binding_*.cc")]),
    depends=HEADERS,
    include_dirs=[*INCLUDES, pybind11.get_include()],
    libraries=["edgefl"],
    extra_compile_args=[*COMPILE, "-O2"],
    extra_link_args=[*LINK, "-Wl,-rpath,$ORIGIN"],
    optional=True,
)

COMMANDS = {"build_ext": BuildNative, "build_py": BuildWithCommit, "sdist": SdistWithCommit}
setup(ext_modules=[library, core], cmdclass=COMMANDS)
