"""The drawing of DESIGN held to the code: arrows point down, no cycles, no torch where none is needed, ceilings."""

import ast
import fnmatch
import functools
import graphlib
import io
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from processes import without_coverage

import paceline
from paceline.cli.verbs import VERBS
from paceline.strategies import catalogue as implementations
from paceline.traffic.catalogue import MEMBERS

ROOT = Path(paceline.__file__).parent

# From the bottom up: a part may import what lies below it, and nothing beside or above it.
LAYERS: tuple[frozenset[str], ...] = (
    frozenset({"errors", "files", "numbers"}),
    frozenset({"units"}),
    frozenset({"grammar"}),
    frozenset({"timing", "network", "netns", "settings", "migrations", "record_parts"}),
    frozenset({"recipe", "spec"}),
    frozenset({"record"}),
    frozenset({"traffic", "schema"}),
    frozenset({"workloads", "devices", "measure"}),
    frozenset({"breakdown"}),
    frozenset({"feeds", "strategies", "explain", "references"}),
    frozenset({"workers", "script", "testbed"}),
    frozenset({"engines"}),
    frozenset({"studies"}),
    frozenset({"project"}),
    frozenset({"report"}),
    frozenset({"cli"}),
    frozenset({"__main__"}),
)
# What lies below and must not be seen all the same: a strategy knows tensors, its group and events, a workload and a
# device know nothing of runs, what is measured comes from records and series, and what is explained from both.
HIDDEN: dict[str, frozenset[str]] = {
    "workloads": frozenset({"spec", "record", "traffic"}),
    "devices": frozenset({"recipe", "spec", "record", "traffic"}),
    "measure": frozenset({"traffic"}),
    "breakdown": frozenset({"recipe", "workloads", "devices"}),
    "feeds": frozenset({"spec", "record", "traffic", "devices", "measure", "breakdown"}),
    "strategies": frozenset({"spec", "record", "workloads", "devices", "measure", "breakdown"}),
    "script": frozenset({"spec", "record", "workloads", "devices", "measure", "breakdown", "feeds"}),
    "workers": frozenset({"breakdown"}),
    "engines": frozenset({"breakdown"}),
    "testbed": frozenset(
        {"recipe", "spec", "record", "traffic", "workloads", "devices", "measure", "breakdown", "feeds", "strategies"}
    ),
    "explain": frozenset({"recipe", "workloads", "devices"}),
    "references": frozenset({"recipe", "traffic", "workloads", "devices", "breakdown"}),
    "studies": frozenset({"recipe", "devices", "strategies", "workers", "script", "breakdown", "explain"}),
    "project": frozenset({"recipe", "workloads", "devices", "feeds", "strategies", "workers", "script", "engines"}),
    "report": frozenset({"recipe", "workloads", "devices", "feeds", "strategies", "workers", "script", "engines"}),
}
# Exceptions: of the workloads, feeds may know what a sample is, but no model; of what is measured, a worker may know
# when it is enough.
MAY_SEE: dict[str, frozenset[str]] = {
    "feeds": frozenset({"paceline.workloads.base"}),
    "workers": frozenset({"paceline.measure.series", "paceline.measure.stopping"}),
}
# These run anywhere, at once: importing them must not import torch.
WITHOUT_TORCH = (
    *(
        "errors",
        "units",
        "grammar",
        "timing",
        "settings",
        "migrations",
        "recipe",
        "spec",
        "record",
        "record_parts",
        "schema",
        "traffic.*",
        "measure.*",
        "devices.*",
    ),
    *("files", "numbers", "network", "netns", "testbed.*"),
    *("breakdown.*", "explain.*", "references.*", "project.*", "studies.*", "report.*", "cli.*"),
    *("feeds.catalogue", "feeds.order", "workloads.catalogue", "workloads.options"),
    *(
        "engines.*",
        "workers.assignment",
        "workers.link",
        "workers.process",
        "strategies.ps.launch",
        "strategies.ps.spare",
    ),
)
# Inside the projection, from the bottom up: both ways to a curve know the curve and not one another.
PARTS_OF_PROJECT = ({"curve"}, {"laws", "simulation"}, {"questions"})
FILE_LINES = 400
FUNCTION_LINES = 40
CONSTRUCTOR_ARGUMENTS = 8
# The training loop is to be read on one page, and the parameters of a verb are its flags.
LONG_FUNCTIONS = {"workers/loop.py:train", "cli/train.py:train", "cli/study.py:study", "cli/project.py:project"}
NAMES_THAT_SAY_NOTHING = {"utils", "util", "helpers", "helper", "common", "misc"}
# Class names that are still used twice, each in a part that is being renovated; the set is to be emptied.
TWICE: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Module:
    """One file of the package."""

    path: Path

    @property
    def file(self) -> str:
        return self.path.relative_to(ROOT).as_posix()

    @property
    def name(self) -> str:
        dotted = ".".join(("paceline", *self.path.relative_to(ROOT).with_suffix("").parts))
        return dotted.removesuffix(".__init__")

    @property
    def part(self) -> str:
        """The part of the drawing it belongs to: a package or a single file; empty for the package itself."""
        return [*self.name.split("."), ""][1]

    @functools.cached_property
    def source(self) -> str:
        return self.path.read_text()

    @functools.cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.source)


@functools.cache
def modules() -> dict[str, Module]:
    found = (Module(path) for path in sorted(ROOT.rglob("*.py")))
    return {module.name: module for module in found}


def imported_by(node: ast.AST) -> Iterator[str]:
    """The modules of the package that one import statement names."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names if alias.name.split(".")[0] == "paceline")
    elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "paceline":
        assert node.level == 0, "imports are absolute"
        for alias in node.names:
            inner = f"{node.module}.{alias.name}"
            yield inner if inner in modules() else str(node.module)


def run_at_import(tree: ast.AST) -> Iterator[ast.AST]:
    """What is executed when a module is imported: not the bodies of functions, nor what only type checkers see."""
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            continue
        yield child
        yield from run_at_import(child)


def layer(part: str) -> int:
    return next(height for height, parts in enumerate(LAYERS) if part in parts)


def everywhere() -> list[tuple[Module, str]]:
    """Every import of one module of the package by another, lazy ones and those for type checkers included."""
    return [(m, target) for m in modules().values() for node in ast.walk(m.tree) for target in imported_by(node)]


def test_every_part_has_its_place_in_the_drawing() -> None:
    drawn = frozenset.union(*LAYERS)
    parts = {module.part for module in modules().values() if module.part}
    assert parts == drawn, "a part is missing in LAYERS, or is drawn and does not exist"


def test_imports_are_found_at_all() -> None:
    edges = {(module.part, target.split(".")[1]) for module, target in everywhere() if "." in target}
    assert {("engines", "workers"), ("workers", "strategies"), ("strategies", "traffic"), ("cli", "engines")} <= edges
    assert ("feeds", "workloads") in edges, "imports for type checkers count, too"


def test_arrows_point_down() -> None:
    wrong = []
    for module, target in everywhere():
        other = modules()[target].part if target in modules() else target
        if module.part in ("", other) or not other:  # the package itself is its public face: it imports lazily
            continue
        if layer(other) >= layer(module.part) or other in HIDDEN.get(module.part, frozenset()):
            wrong.append(f"{module.name} imports {target}")
    assert wrong == []


@pytest.mark.parametrize(("part", "of"), [("feeds", "workloads"), ("workers", "measure")])
def test_of_some_parts_only_one_file_may_be_seen(part: str, of: str) -> None:
    seen = {target for module, target in everywhere() if module.part == part and target.split(".")[1] == of}
    assert seen == MAY_SEE[part]


def part_of_project(name: str) -> str:
    """The folder or file of the projection that a module belongs to; empty for modules of other parts."""
    if not name.startswith("paceline.project."):
        return ""
    return name.split(".")[2]


def test_laws_and_simulation_lead_to_a_curve_and_questions_are_asked_of_both() -> None:
    height = {part: level for level, parts in enumerate(PARTS_OF_PROJECT) for part in parts}
    assert {part_of_project(name) for name in modules()} - {""} == set(height)
    edges = {(part_of_project(module.name), part_of_project(target)) for module, target in everywhere()}
    inner = {(part, other) for part, other in edges if part and other and part != other}
    assert {(part, other) for part, other in inner if height[part] <= height[other]} == set()
    assert inner >= {("questions", "laws"), ("questions", "simulation"), ("laws", "curve")}


def test_no_module_imports_itself_through_others() -> None:
    graph = {
        module.name: {target for node in run_at_import(module.tree) for target in imported_by(node)} - {module.name}
        for module in modules().values()
    }
    assert any(graph.values())
    graphlib.TopologicalSorter(graph).prepare()  # raises CycleError with the modules of the cycle


def test_what_runs_anywhere_imports_no_torch() -> None:
    names = [n for n in modules() if any(fnmatch.fnmatch(n, f"paceline.{pattern}") for pattern in WITHOUT_TORCH)]
    for pattern in WITHOUT_TORCH:
        assert fnmatch.filter(names, f"paceline.{pattern}"), f"{pattern} names no module"
    program = (
        "import importlib, sys\n"
        "for name in sys.argv[1:]:\n"
        "    importlib.import_module(name)\n"
        "    if 'torch' in sys.modules:\n"
        "        sys.exit(f'{name} imports torch')\n"
    )
    finished = subprocess.run(
        [sys.executable, "-c", program, *names], capture_output=True, text=True, timeout=60, check=False
    )
    assert finished.returncode == 0, finished.stderr


def loaded_by(*arguments: str) -> set[str]:
    """The modules that a command line has loaded when it ends well."""
    program = (
        "import sys\n"
        "from paceline.cli.main import main\n"
        "try:\n"
        "    main()\n"
        "except SystemExit as end:\n"
        "    print(*sys.modules, file=sys.stderr)\n"
        "    sys.exit(end.code)\n"
    )
    command = [sys.executable, "-c", program, *arguments]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=without_coverage())
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.strip()
    return set(finished.stderr.split())


@pytest.mark.parametrize("arguments", [["--help"], ["--version"]])
def test_the_list_of_verbs_imports_no_verb_and_nothing_that_is_slow_to_import(arguments: list[str]) -> None:
    loaded = loaded_by(*arguments)
    ours = {name for name in loaded if name.partition(".")[0] == "paceline"}
    assert ours == {"paceline", "paceline.cli", "paceline.cli.main", "paceline.cli.verbs", "paceline.errors"}
    slow = {"rich", "typer.rich_utils", "importlib.metadata", "email", "msgspec", "pydantic", "psutil"}
    assert loaded & slow == set()


@pytest.mark.parametrize(
    "arguments",
    [
        *(["--help"], ["--version"], ["train", "--help"], ["study", "--help"], ["explain", "--help"]),
        *(["report", "--help"], ["project", "--help"], ["profile", "--help"], ["testbed", "--help"]),
    ],
)
def test_help_answers_without_loading_what_only_a_run_needs(arguments: list[str]) -> None:
    loaded = loaded_by(*arguments)
    assert loaded & {"torch", "numpy", "rich.progress", "multiprocessing", "zmq"} == set()
    verbs = {verb.address.partition(":")[0]: name for name, verb in VERBS.items()}
    assert {name for module, name in verbs.items() if module in loaded} <= {arguments[0]}, "only what was asked for"


def test_no_part_but_traffic_and_strategies_knows_a_member_of_a_chain() -> None:
    """Others ask the resolved strategy, so that a new member touches none of them."""
    claims = {member.claim.__module__ for member in MEMBERS.values()}
    names = {name for name, member in MEMBERS.items() if member.kind != "codec"}  # bf16 is a precision, too
    others = [module for module in modules().values() if module.part not in ("traffic", "strategies")]
    wrong = [
        f"{module.name} imports {target}" for module, target in everywhere() if module in others and target in claims
    ]
    for module in others:
        compared = (node for node in ast.walk(module.tree) if isinstance(node, ast.Compare))
        for node in compared:
            constants = {v.value for v in ast.walk(node) if isinstance(v, ast.Constant) and isinstance(v.value, str)}
            if constants & names:
                wrong.append(f"{module.file}:{node.lineno} compares {ast.unparse(node)}")
    assert wrong == []


@pytest.mark.parametrize("name", MEMBERS)
def test_every_strategy_that_is_offered_can_be_built(name: str) -> None:
    chain = name if MEMBERS[name].kind != "codec" else f"{name}+allreduce"
    assert callable(implementations.build(chain).replicate)


def code_lines(module: Module) -> frozenset[int]:
    """Lines that hold code: neither blank nor only a comment."""
    silent = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    tokens = tokenize.generate_tokens(io.StringIO(module.source).readline)
    return frozenset(
        line for token in tokens if token.type not in silent for line in range(token.start[0], token.end[0] + 1)
    )


def length(function: ast.FunctionDef | ast.AsyncFunctionDef, lines: frozenset[int]) -> int:
    """Lines of code, the signature and inner functions included, without docstring, comments and blank lines."""
    own = set(range(function.lineno, (function.end_lineno or function.lineno) + 1)) & lines
    if ast.get_docstring(function) is not None:
        text = function.body[0]
        own -= set(range(text.lineno, (text.end_lineno or text.lineno) + 1))
    return len(own)


def functions(module: Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(module.tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def test_lines_of_code_are_counted_without_docstring_comments_and_blanks(tmp_path: Path) -> None:
    docstring, comment = '    """Two\n    lines."""\n', "    # why\n\n"
    source = f"def f(\n    a,\n):\n{docstring}{comment}    b = (\n        a\n    )\n    return b  # what\n"
    (tmp_path / "m.py").write_text(source)
    module = Module(tmp_path / "m.py")
    (function,) = functions(module)
    assert length(function, code_lines(module)) == 7


@pytest.mark.parametrize("name", modules())
def test_a_file_keeps_to_the_ceilings(name: str) -> None:
    module = modules()[name]
    lines = code_lines(module)
    assert module.source.count("\n") <= FILE_LINES
    long = {f"{module.file}:{f.name}": length(f, lines) for f in functions(module)}
    assert {f: n for f, n in long.items() if n > FUNCTION_LINES and f not in LONG_FUNCTIONS} == {}
    for function in functions(module):
        if function.name == "__init__":
            arguments = function.args
            count = len([*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]) - 1
            assert count <= CONSTRUCTOR_ARGUMENTS, f"{module.file}:{function.lineno}"


@pytest.mark.parametrize("name", modules())
def test_a_file_says_what_it_is_in_its_name_and_its_first_line(name: str) -> None:
    module = modules()[name]
    assert module.path.stem not in NAMES_THAT_SAY_NOTHING
    first = (ast.get_docstring(module.tree) or "").split("\n")[0]
    assert first, "a module begins with a docstring"
    assert first[0].isupper() or first[0] == "`"
    assert first.endswith("."), "its first line is a whole sentence"


def test_a_class_name_is_used_once_in_the_package() -> None:
    files: dict[str, list[str]] = {}
    for module in modules().values():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ClassDef):
                files.setdefault(node.name, []).append(module.file)
    assert "Record" in files
    twice = {name: where for name, where in files.items() if len(where) > 1}
    assert {name: where for name, where in twice.items() if name not in TWICE} == {}
    assert twice.keys() >= TWICE, "a name that is used once needs no exception any more"


def test_exceptions_from_the_ceilings_are_of_functions_that_exist() -> None:
    known = {f"{module.file}:{function.name}" for module in modules().values() for function in functions(module)}
    assert known >= LONG_FUNCTIONS
