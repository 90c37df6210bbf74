"""Build the loops of src/gmmatch/compute/loops: for a wheel or, as a script, in place.

The system's compiler (CC, else cc) builds them where there is one whose build passes the self-test, else zig,
which the Python package `ziglang` brings along: it is asked for as a build requirement where it is needed.
Wheels for other systems are built by zig: GMMATCH_TARGET names one of TARGETS.
"""

import ctypes
import hashlib
import importlib.util
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:  # run as a script
    BuildHookInterface = object

LOOPS = Path(__file__).parent / "src" / "gmmatch" / "compute" / "loops"
# Never -ffast-math: the loops give the same bits whoever compiles them.
FLAGS = ("-O3", "-std=c11", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math")
FLAGS += ("-fvisibility=hidden", "-shared", "-fPIC")
# What each build may use beyond the least that x86-64 has.
FEATURES = {"base": (), "avx2": ("avx2",)}
FEATURES["avx512"] = (*FEATURES["avx2"], "avx512f", "avx512dq", "avx512bw", "avx512vl")
TARGETS = {
    "x86_64-linux-gnu.2.17": "manylinux_2_17_x86_64",
    "aarch64-linux-gnu.2.17": "manylinux_2_17_aarch64",
    "x86_64-macos.11.0": "macosx_11_0_x86_64",
    "aarch64-macos.11.0": "macosx_11_0_arm64",
    "x86_64-windows-gnu": "win_amd64",
}


def compilers():
    """Return the commands that may build for this machine, the system's first."""
    system = shlex.split(os.environ.get("CC", "")) or ["cc"]
    zig = [sys.executable, "-m", "ziglang", "cc"]
    return [system] * bool(shutil.which(system[0])) + [zig] * bool(importlib.util.find_spec("ziglang"))


def digest():
    """Return the digest of the sources, which a build carries."""
    sources = b"".join((LOOPS / name).read_bytes() for name in ("loops.c", "rows.h"))
    return hashlib.sha256(sources).hexdigest()


def outputs(folder, target=None):
    """Return the files of a build: one for every processor and, on x86-64, those for AVX2 and AVX-512."""
    machine = (target or platform.machine()).partition("-")[0].lower()
    windows = "windows" in target if target else sys.platform == "win32"
    names = FEATURES if machine in ("x86_64", "amd64") else ("base",)
    return [Path(folder) / f"{name}{'.dll' if windows else '.so'}" for name in names]


def compile_loops(compiler, files, target=None, flags=FLAGS):
    """Compile the loops into files of these names."""
    for file in files:
        options = [*flags, f'-DSOURCE="{digest()}"']
        if target:
            options += ["-target", target]
        if "ziglang" in compiler:  # which else builds for this very processor
            base = "x86_64" if len(files) > 1 else "baseline"
            options += ["-mcpu=" + "+".join((base, *FEATURES[file.stem]))]
        else:
            options += [f"-m{feature}" for feature in FEATURES[file.stem]]
        options += ["-mprefer-vector-width=512"] * (file.stem == "avx512")
        caches = {f"ZIG_{kind}_CACHE_DIR": str(file.parent / "zig") for kind in ("GLOBAL", "LOCAL")}
        subprocess.run(
            [*compiler, *options, "-o", file, LOOPS / "loops.c", "-lm"],
            env=caches | os.environ, check=True, capture_output=True,
        )  # fmt: skip


def check(files):
    """Refuse a build that is not of these sources or fails its self-test here."""
    for level, file in enumerate(files):
        if not file.exists():
            raise OSError(f"{file.name} is missing")
        library = ctypes.CDLL(str(file))
        library.source.restype = ctypes.c_char_p
        if library.source().decode() != digest():
            raise OSError(f"{file.name} was built from other sources")
        if level <= library.level() and not library.self_test():
            raise OSError(f"{file.name} fails its self-test")


def build(folder):
    """Build the loops with the first compiler that does it right here; return the files, or none."""
    try:
        check(outputs(LOOPS))  # an earlier build, whose files are good for all on this machine
        return outputs(LOOPS)
    except OSError:
        pass
    for compiler in compilers():
        try:
            # Beside the old files, which are replaced whole: a process that has one open keeps it.
            with tempfile.TemporaryDirectory(dir=folder) as apart:
                compile_loops(compiler, outputs(apart))
                check(outputs(apart))
                return [file.replace(Path(folder) / file.name) for file in outputs(apart)]
        except (OSError, subprocess.CalledProcessError) as error:
            reason = (getattr(error, "stderr", None) or str(error).encode()).decode(errors="replace")
            print(f"{shlex.join(compiler)} does not build the loops: {reason}", file=sys.stderr)
    return []


class CustomBuildHook(BuildHookInterface):
    """Put the built loops into wheels, and beside their sources for an editable install."""

    def dependencies(self):
        """Ask for zig where the system's compiler does not do, on machines that it is made for."""
        if self.target_name != "wheel":
            return []
        with tempfile.TemporaryDirectory() as folder:
            needed = "GMMATCH_TARGET" in os.environ or not build(folder)
        fits = platform.machine().lower() in ("x86_64", "amd64", "aarch64", "arm64")
        return ["ziglang>=0.13"] if needed and fits else []

    def initialize(self, version, build_data):
        """Build, and tell hatchling what was built."""
        if self.target_name != "wheel":
            return
        self.folder = tempfile.TemporaryDirectory()
        target = os.environ.get("GMMATCH_TARGET")
        if target:
            zig, files = [sys.executable, "-m", "ziglang", "cc"], outputs(self.folder.name, target)
            compile_loops(zig, files, target)
        else:
            files = build(LOOPS if version == "editable" else self.folder.name)
        if not files:
            print("No compiler built the loops; NumPy runs them, many times slower", file=sys.stderr)
        elif version != "editable":
            from packaging.tags import platform_tags

            here = (tag for tag in platform_tags() if not tag.startswith(("manylinux", "musllinux")))
            build_data["tag"] = f"py3-none-{TARGETS[target] if target else next(here)}"
            build_data["pure_python"] = False
            places = {str(file): f"gmmatch/compute/loops/{file.name}" for file in files}
            build_data["force_include"].update(places)

    def finalize(self, version, build_data, artifact_path):
        """Remove what the wheel now holds."""
        if self.target_name == "wheel":
            self.folder.cleanup()


if __name__ == "__main__":
    sys.exit(not build(LOOPS))
