"""Cache: generated source, compiled to machine code once and kept on disk under a name of its content.

The folder is $KVSPEC_CACHE, or kvspec in $XDG_CACHE_HOME (by default ~/.cache). Beside each object file
lies the Python source that it was made from, to be read. The name also depends on the processor and
the compiler, so a folder shared by machines is safe. An object file begins with the SHA-256 of its
name and its code: one that is damaged, or lies under the name of another, is compiled anew and never
run.
"""

from __future__ import annotations

import atexit
import ctypes
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite  # type: ignore[import-untyped]
import llvmlite.binding as llvm  # type: ignore[import-untyped]

from kvspec.models.explicit.lower import lower

ARRAYS = frozenset({"st", "out", "dead", "tally", "src", "ev", "flags", "bound"})
_FORMAT = 2
_SEAL = hashlib.sha256().digest_size
LONG_SOURCE = 100_000
"""Characters of a source whose compilation may take more than a moment."""
_COMPILE = """
import sys
from kvspec.models.explicit.cache import load
load(sys.stdin.buffer.read().decode())
"""


def folder() -> Path:
    """Where compiled functions are kept; a temporary folder if the cache cannot be written."""
    given = os.environ.get("KVSPEC_CACHE")
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    place = Path(given) if given else base / "kvspec"
    try:
        place.mkdir(parents=True, exist_ok=True)
        if os.access(place, os.W_OK | os.X_OK):
            return place
    except OSError:
        pass
    return _temporary()


_alive: list[tuple[Any, bytes]] = []


class Compiled:
    """A compiled function; called with integers and arrays of int64. It runs without the GIL.

    address: where its code is, for compiled code that calls it.
    """

    def __init__(self, name: str, kinds: tuple[bool, ...], code: bytes) -> None:
        self.kinds = kinds
        engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _machine())
        engine.add_object_file(llvm.ObjectFileRef.from_data(code))
        engine.finalize_object()
        prototype = ctypes.CFUNCTYPE(ctypes.c_int64, *([ctypes.c_int64] * len(kinds)))
        self.address = int(engine.get_function_address(name))
        self._call = prototype(self.address)
        # The code stays for the life of the process: LLVM does not survive taking an engine down
        # whose object file was added from outside.
        engine.detach()
        _alive.append((engine, code))

    def __call__(self, *args: Any) -> int:
        """Call it; an array is passed as its address, so it must be contiguous."""
        values = [
            arg.__array_interface__["data"][0] if array else arg
            for array, arg in zip(self.kinds, args, strict=True)
        ]
        return int(self._call(*values))


_loaded: dict[str, Compiled] = {}


def load(source: str) -> Compiled:
    """The compiled function of a source text that defines one function."""
    digest = _digest(source)
    if digest not in _loaded:
        path = folder() / f"{digest}.o"
        name, kinds = _name(source), _kinds(source)
        code = _read(path)
        if code is None:
            text, name, kinds = lower(source, ARRAYS)
            code = _compile(text)
            with suppress(OSError):  # a file that cannot be kept is made again the next time
                _write(path.with_suffix(".py"), source.encode())
                _write(path, _seal(path.name, code) + code)
        _loaded[digest] = Compiled(name, kinds, code)
    return _loaded[digest]


def load_within(source: str, seconds: float) -> Compiled | None:
    """As `load`, but None if compiling a long source would take more than so many seconds.

    A long source that is not kept yet is compiled by a process of its own, which is ended then. A short
    one takes less time than a process does to start, and is compiled here.
    """
    place = folder()
    if len(source) < LONG_SOURCE or _is_kept(source, place):
        return load(source)
    command = [sys.executable, "-P", "-c", _COMPILE]
    environment = {**os.environ, "KVSPEC_CACHE": str(place)}
    try:
        subprocess.run(  # noqa: S603  # this interpreter, on a program that is written here
            command,
            input=source.encode(),
            env=environment,
            timeout=max(seconds, 0.0),
            check=False,
            stderr=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        return None
    return load(source)


def _digest(source: str) -> str:
    return hashlib.sha256("\n".join((*_environment(), source)).encode()).hexdigest()[:24]


def _is_kept(source: str, place: Path) -> bool:
    digest = _digest(source)
    return digest in _loaded or _read(place / f"{digest}.o") is not None


def _compile(text: str) -> bytes:
    module = llvm.parse_assembly(text)
    module.triple = llvm.get_process_triple()
    machine = _machine()
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    return bytes(machine.emit_object(module))


@cache
def _machine() -> Any:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_triple(llvm.get_process_triple())
    return target.create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=2,
        codemodel="jitdefault",
        jit=True,
    )


@cache
def _environment() -> tuple[str, ...]:
    features = llvm.get_host_cpu_features().flatten()
    return str(_FORMAT), llvmlite.__version__, llvm.get_host_cpu_name(), features


@cache
def _temporary() -> Path:
    """A folder that this process removes when it ends; a process forked off leaves it alone."""
    place, owner = Path(tempfile.mkdtemp(prefix="kvspec-")), os.getpid()

    def remove() -> None:
        if os.getpid() == owner:
            shutil.rmtree(place, ignore_errors=True)

    atexit.register(remove)
    return place


def _name(source: str) -> str:
    return source.split("(", 1)[0].removeprefix("def ").strip()


def _kinds(source: str) -> tuple[bool, ...]:
    parameters = source.split("(", 1)[1].split(")", 1)[0]
    return tuple(part.strip() in ARRAYS for part in parameters.split(","))


def _seal(name: str, code: bytes) -> bytes:
    """The digest of a file's name and its code."""
    return hashlib.sha256(name.encode() + b"\0" + code).digest()


def _read(path: Path) -> bytes | None:
    """The code that a file holds; None if there is none, or not what was written under that name."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    seal, code = content[:_SEAL], content[_SEAL:]
    return code if code and seal == _seal(path.name, code) else None


def _write(path: Path, content: bytes) -> None:
    """Write in one step, so that another process, or one after a crash, never reads half a file."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    except OSError:
        Path(temporary).unlink(missing_ok=True)
        raise
