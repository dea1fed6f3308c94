"""Cache: generated source, compiled to machine code once and kept on disk under a name of its content.

The folder is $KVSPEC_CACHE, or kvspec in $XDG_CACHE_HOME (by default ~/.cache). Beside each object file
lies the Python source that it was made from, to be read. The name also depends on the processor and
the compiler, so a folder shared by machines is safe.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite  # type: ignore[import-untyped]
import llvmlite.binding as llvm  # type: ignore[import-untyped]

from kvspec.models.explicit.lower import lower

ARRAYS = frozenset({"st", "out", "dead", "tally", "src", "ev", "flags", "bound"})
_FORMAT = 1


def folder() -> Path:
    """Where compiled functions are kept; a temporary folder if the cache cannot be written."""
    given = os.environ.get("KVSPEC_CACHE")
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    place = Path(given) if given else base / "kvspec"
    try:
        place.mkdir(parents=True, exist_ok=True)
        if os.access(place, os.W_OK):
            return place
    except OSError:
        pass
    return _temporary()


_alive: list[tuple[Any, bytes]] = []


class Compiled:
    """A compiled function; called with integers and arrays of int64. It runs without the GIL."""

    def __init__(self, name: str, kinds: tuple[bool, ...], code: bytes) -> None:
        self.kinds = kinds
        engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _machine())
        engine.add_object_file(llvm.ObjectFileRef.from_data(code))
        engine.finalize_object()
        prototype = ctypes.CFUNCTYPE(ctypes.c_int64, *([ctypes.c_int64] * len(kinds)))
        self._call = prototype(engine.get_function_address(name))
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


def load(source: str) -> Callable[..., int]:
    """The compiled function of a source text that defines one function."""
    digest = hashlib.sha256("\n".join((*_environment(), source)).encode()).hexdigest()[:24]
    if digest not in _loaded:
        path = folder() / f"{digest}.o"
        text, name, kinds = "", _name(source), _kinds(source)
        try:
            code = path.read_bytes()
        except OSError:
            text, name, kinds = lower(source, ARRAYS)
            code = _compile(text)
            _write(path.with_suffix(".py"), source.encode())
            _write(path, code)
        _loaded[digest] = Compiled(name, kinds, code)
    return _loaded[digest]


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
    return Path(tempfile.mkdtemp(prefix="kvspec-"))


def _name(source: str) -> str:
    return source.split("(", 1)[0].removeprefix("def ").strip()


def _kinds(source: str) -> tuple[bool, ...]:
    parameters = source.split("(", 1)[1].split(")", 1)[0]
    return tuple(part.strip() in ARRAYS for part in parameters.split(","))


def _write(path: Path, content: bytes) -> None:
    """Write in one step, so that another process never reads half a file."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
    with os.fdopen(handle, "wb") as file:
        file.write(content)
    Path(temporary).replace(path)
