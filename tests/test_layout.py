"""The shape of the project: links, wheel, import arrows, start-up, sizes, no machine paths."""

import ast
import json
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder

ROOT = Path(__file__).resolve().parent.parent
FACE = ROOT / "src" / "kvspec"
LAYERS = (
    "spec",
    "models",
    "properties",
    "counterexamples",
)  # each may import itself and those before it
HOMES = {
    "llvmlite": ("models/explicit",),
    "numba": ("models/explicit",),
    "opentelemetry": ("models/telemetry",),
    "prometheus_client": ("models/telemetry",),
    "scipy": ("models/explicit",),
    "torch": ("models/decode", "models/runtimes"),
    "transformers": ("models/runtimes",),
    "z3": ("models/symbolic",),
}
SLOW_TO_LOAD = {
    "cvc5",
    "llvmlite",
    "numba",
    "opentelemetry",
    "prometheus_client",
    "scipy",
    "torch",
    "transformers",
    "z3",
}
LINES_AT_MOST = 500
MACHINE_PATH = re.compile(r"(?<![\w./~)\]}>-])/(?:work|root|home)(?=[/\s\"'`:,;)]|$)", re.MULTILINE)


def modules() -> list[Path]:
    """The package's own Python files, by their real paths."""
    face = [p for p in FACE.rglob("*.py") if p.relative_to(FACE).parts[0] not in LAYERS]
    return sorted(face + [p for layer in LAYERS for p in (ROOT / layer).rglob("*.py")])


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """Line and full name of every module that a file imports, at its top or inside a function."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            if node.module == "kvspec":
                yield from ((node.lineno, f"kvspec.{alias.name}") for alias in node.names)
            else:
                yield node.lineno, node.module


def tracked(*under: str) -> list[Path]:
    """The files that git tracks and that exist, links left out."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--", *under],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    paths = [ROOT / name for name in listing.split("\0") if name]
    return [p for p in paths if p.is_file() and not p.is_symlink()]


def declared(*, with_extras: bool) -> set[str]:
    """The distributions that pyproject.toml asks for; the extra `dev` is no run-time dependency."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    requirements = list(project["dependencies"])
    for extra, more in project["optional-dependencies"].items():
        if with_extras or extra != "dev":
            requirements += more
    names = {re.split(r"[^A-Za-z0-9_.-]", requirement)[0].lower() for requirement in requirements}
    return names - {"kvspec"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built in this process and without a network."""
    folder = tmp_path_factory.mktemp("wheel")
    return Path(next(WheelBuilder(str(ROOT)).build(directory=str(folder), versions=["standard"])))


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source distribution, built in this process and without a network."""
    folder = tmp_path_factory.mktemp("sdist")
    return Path(next(SdistBuilder(str(ROOT)).build(directory=str(folder), versions=["standard"])))


def wheel_files(path: Path) -> set[str]:
    """The names in a wheel, its metadata left out."""
    with zipfile.ZipFile(path) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


@pytest.mark.parametrize("layer", LAYERS)
def test_the_four_links_are_links(layer: str) -> None:
    """Each part of the package is a relative link to the folder at the top."""
    link = FACE / layer
    assert link.is_symlink(), f"src/kvspec/{layer} is a copy: make it a link to ../../{layer}"
    assert link.readlink() == Path("..") / ".." / layer


def test_kvspec_is_the_only_name_in_the_wheel(wheel: Path) -> None:
    """No generic name such as `models` lands in site-packages."""
    assert {name.split("/")[0] for name in wheel_files(wheel)} == {"kvspec"}


def test_the_wheel_holds_every_tracked_file(wheel: Path) -> None:
    """Data files (traces, schemas) are shipped as well as modules."""
    expected = {f"kvspec/{p.relative_to(ROOT).as_posix()}" for p in tracked(*LAYERS)}
    assert expected
    assert not expected - wheel_files(wheel)


def test_the_sdist_holds_every_file_once(sdist: Path, wheel: Path, tmp_path: Path) -> None:
    """The source distribution has one copy of each part and gives the same wheel."""
    with tarfile.open(sdist) as archive:
        tops = {name.split("/")[1] for name in archive.getnames()}
        archive.extractall(tmp_path, filter="data")
    assert not tops & set(LAYERS)
    (unpacked,) = tmp_path.iterdir()
    builder = WheelBuilder(str(unpacked))
    again = Path(next(builder.build(directory=str(tmp_path / "again"), versions=["standard"])))
    assert wheel_files(again) == wheel_files(wheel)


@pytest.mark.slow
def test_every_module_of_the_installed_wheel_can_be_imported(wheel: Path, tmp_path: Path) -> None:
    """The wheel works where there is no checkout: nothing reads a file that was left behind."""
    target = tmp_path / "site"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*pip, "--target", target, wheel], check=True)
    program = (
        "import importlib, pkgutil, sys\n"
        f"sys.path.insert(0, {str(target)!r})\n"
        "import kvspec\n"
        "for module in pkgutil.walk_packages(kvspec.__path__, 'kvspec.'):\n"
        "    if not module.name.endswith('__main__'):\n"
        "        importlib.import_module(module.name)\n"
        "print(kvspec.__file__)\n"
    )
    run = subprocess.run(
        [sys.executable, "-I", "-c", program],
        cwd=tmp_path,
        check=False,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    assert Path(run.stdout.splitlines()[-1]).is_relative_to(target)


def arrow_fault(where: str, name: str) -> str | None:
    """Why the file at `where`, relative to the root, may not import the module `name`, if so."""
    layer = where.split("/", maxsplit=1)[0]
    top, *rest = name.split(".")
    if top == "kvspec" and layer in LAYERS:
        allowed = LAYERS[: LAYERS.index(layer) + 1]
        if not rest or rest[0] not in allowed:
            return f"{layer} may import kvspec.{{{', '.join(allowed)}}} alone"
    elif top in HOMES and not where.startswith(tuple(f"{home}/" for home in HOMES[top])):
        return f"{top} is for {' and '.join(HOMES[top])} alone"
    elif layer == "spec" and top not in {*sys.stdlib_module_names, "attr", "attrs", "kvspec"}:
        return "spec may import attrs and the standard library alone"
    return None


@pytest.mark.parametrize("path", modules(), ids=lambda p: p.relative_to(ROOT).as_posix())
def test_import_arrows_run_one_way(path: Path) -> None:
    """spec <- models <- properties <- counterexamples <- the face; heavy libraries stay at home."""
    where = path.relative_to(ROOT).as_posix()
    for line, name in imports(path):
        fault = arrow_fault(where, name)
        assert fault is None, f"{where}:{line} imports {name}: {fault}"


@pytest.mark.parametrize(
    ("where", "name", "is_allowed"),
    [
        ("spec/append.py", "kvspec.spec.language", True),
        ("spec/append.py", "attrs", True),
        ("spec/append.py", "dataclasses", True),
        ("spec/append.py", "numpy", False),
        ("spec/append.py", "z3", False),
        ("spec/append.py", "kvspec.models.concrete", False),
        ("spec/append.py", "kvspec", False),
        ("models/explicit/search.py", "numba", True),
        ("models/concrete/run.py", "numba", False),
        ("models/symbolic/prove.py", "z3", True),
        ("models/symbolic/prove.py", "kvspec.properties.invariants", False),
        ("models/runtimes/adapter.py", "torch", True),
        ("properties/stateful.py", "torch", False),
        ("properties/stateful.py", "kvspec.models.concrete", True),
        ("properties/stateful.py", "kvspec.cli", False),
        ("counterexamples/replay.py", "kvspec.properties.invariants", True),
        ("src/kvspec/cli.py", "kvspec.counterexamples.replay", True),
        ("src/kvspec/cli.py", "z3", False),
    ],
)
def test_the_arrows_are_told_apart(where: str, name: str, is_allowed: bool) -> None:
    """The rule for imports refuses each kind of wrong arrow and lets the right ones through."""
    assert (arrow_fault(where, name) is None) is is_allowed


@pytest.mark.parametrize("path", modules(), ids=lambda p: p.relative_to(ROOT).as_posix())
def test_what_is_imported_is_declared(path: Path) -> None:
    """Every library in use is a dependency in pyproject.toml, not a guest of another library."""
    distributions = packages_distributions()
    known = declared(with_extras=False)
    for line, name in imports(path):
        top = name.split(".")[0]
        if top == "kvspec" or top in sys.stdlib_module_names:
            continue
        # A library that is not installed here, as an extra may be, is looked for by its own name.
        found = {each.lower().replace("_", "-") for each in distributions.get(top, [top])}
        where = f"{path.relative_to(ROOT).as_posix()}:{line}"
        assert found & known, f"{where} imports {top}: add it to pyproject.toml and constraints.txt"


def test_help_loads_no_slow_library() -> None:
    """`kvspec --help` answers at once: solvers, compilers and torch are loaded when used."""
    if not ((FACE / "cli").exists() or (FACE / "cli.py").exists()):
        pytest.skip("there is no command line yet")
    program = (
        "import json, sys\n"
        "sys.argv = ['kvspec', '--help']\n"
        "from kvspec.cli import main\n"
        "try:\n"
        "    code = main()\n"
        "except SystemExit as end:\n"
        "    code = end.code\n"
        "print(json.dumps([code or 0, sorted(sys.modules)]))\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], check=False, capture_output=True, text=True, timeout=60
    )
    assert run.returncode == 0, run.stderr
    code, loaded = json.loads(run.stdout.splitlines()[-1])
    assert code == 0
    assert "usage" in run.stdout.lower()
    assert not SLOW_TO_LOAD & set(loaded)


def test_no_module_is_too_long() -> None:
    """A file is read in one sitting: past the limit it is split by concept."""
    files = modules() + sorted((ROOT / "tests").rglob("*.py"))
    lengths = {p: len(p.read_text(encoding="utf-8").splitlines()) for p in files}
    long = {str(p.relative_to(ROOT)): n for p, n in lengths.items() if n > LINES_AT_MOST}
    assert not long, f"over {LINES_AT_MOST} lines: {long}"


def test_no_machine_path_is_tracked() -> None:
    """A tracked file says nothing of the machine on which it was written."""
    found = []
    for path in tracked():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # a binary file
        for hit in MACHINE_PATH.finditer(text):
            line = text.count("\n", 0, hit.start()) + 1
            found.append(f"{path.relative_to(ROOT)}:{line}: {hit.group()}")
    assert not found, "machine paths:\n" + "\n".join(found)


@pytest.mark.parametrize(
    ("text", "is_machine_path"),
    [
        ("see /" + "work/main/x.py", True),
        ('"/' + 'root/.cache"', True),
        ("file:///" + "home/someone", False),  # caught in the lock; prose names no such address
        ("https://example.org/work/x", False),
        ("build/work/x and ./work", False),
        ("roots/rootless", False),
    ],
)
def test_the_search_for_machine_paths_finds_them(text: str, is_machine_path: bool) -> None:
    """The pattern finds absolute paths and leaves relative paths and addresses alone."""
    assert bool(MACHINE_PATH.search(text)) is is_machine_path


def test_the_lock_is_plain_and_complete() -> None:
    """constraints.txt pins every declared dependency by version alone: no index, no path."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    odd = [pin for pin in pins if not re.fullmatch(r"[a-z0-9._-]+==[0-9][0-9a-z.]*(; .+)?", pin)]
    assert not odd
    pinned = {pin.split("==")[0].replace("_", "-") for pin in pins}
    assert not declared(with_extras=True) - pinned
    assert "torch==2.13.0" in pins
