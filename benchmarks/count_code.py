"""What the code is made of, counted from its syntax: how much of it travels under names that no type checker knows.

    python benchmarks/count_code.py [PACKAGE] [--json] [--commits A B …]

String subscripts are `x["name"]`, read, written or deleted. Untyped dicts are annotations such as `dict[str, Any]`.
Lists of settings are tuples, lists, sets and keys of dicts with at least two texts, all of them names of fields of
`RunSpec`, anywhere but in the file that defines it. Lines of code are without blank lines, comments and docstrings.
With `--commits` it says which files each commit changed, to see what a new strategy, codec or axis touches.
"""

import argparse
import ast
import io
import json
import subprocess
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
SPEC_CLASS = "RunSpec"
MAPPINGS, UNTYPED_VALUES = ("dict", "Dict", "Mapping", "MutableMapping"), ("Any", "object")
TYPES = ("Literal", "list", "tuple", "set", "frozenset", "type", "Sequence", "Iterable", "Iterator", "Callable")
NOT_CODE = (
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT),
    *(tokenize.ENDMARKER, tokenize.ENCODING),
)
MEANINGS = {
    "string_subscripts": "string subscripts",
    "untyped_dicts": "untyped dicts",
    "untyped_kinds": "of these",
    "settings_lists": "lists of settings",
    "repeated_classes": "class names used twice",
    "files": "files",
    "code_lines": "lines of code",
    "longest_file": "longest file, in lines",
    "longest_function": "longest function, in lines of code",
}

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Source:
    """One file of the package, parsed."""

    name: str
    text: str
    tree: ast.Module

    @classmethod
    def read(cls, path: Path, package: Path) -> "Source":
        """A file, named as seen from its package."""
        text = path.read_text()
        return cls(path.relative_to(package).as_posix(), text, ast.parse(text))

    @property
    def code_lines(self) -> set[int]:
        """The numbers of lines with code on them."""
        tokens = tokenize.generate_tokens(io.StringIO(self.text).readline)
        lines = {n for t in tokens if t.type not in NOT_CODE for n in range(t.start[0], t.end[0] + 1)}
        return lines - {n for text in _docstrings(self.tree) for n in _span(text)}


@dataclass(frozen=True)
class Counts:
    """Everything that is counted."""

    string_subscripts: int
    untyped_dicts: int
    untyped_kinds: dict[str, int]
    settings_lists: list[str]
    repeated_classes: dict[str, list[str]]
    files: int
    code_lines: int
    longest_file: tuple[str, int]
    longest_function: tuple[str, int]


def count(package: Path) -> Counts:
    """Count a package."""
    sources = [Source.read(path, package) for path in sorted(package.rglob("*.py"))]
    spec_file, fields = _settings(sources)
    untyped = Counter(kind for source in sources for kind in _untyped(source.tree))
    classes: defaultdict[str, list[str]] = defaultdict(list)
    for source in sources:
        for node in ast.walk(source.tree):
            if isinstance(node, ast.ClassDef):
                classes[node.name].append(f"{source.name}:{node.lineno}")
    return Counts(
        string_subscripts=sum(_is_string_subscript(node) for s in sources for node in ast.walk(s.tree)),
        untyped_dicts=untyped.total(),
        untyped_kinds=dict(untyped.most_common()),
        settings_lists=[text for s in sources if s.name != spec_file for text in _settings_lists(s, fields)],
        repeated_classes={name: places for name, places in sorted(classes.items()) if len(places) > 1},
        files=len(sources),
        code_lines=sum(len(source.code_lines) for source in sources),
        longest_file=max(((s.name, len(s.text.splitlines())) for s in sources), key=lambda pair: pair[1]),
        longest_function=max((pair for s in sources for pair in _functions(s)), key=lambda pair: pair[1]),
    )


def _is_string_subscript(node: ast.AST) -> bool:
    """Whether a value is taken by a constant text; `Literal["a"]` and `list["Later"]` are types, not values."""
    if not isinstance(node, ast.Subscript) or _name(node.value) in TYPES:
        return False
    return isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str)


def _untyped(tree: ast.Module) -> Iterator[str]:
    """Mappings from text to anything, as they are written; those inside a quoted annotation count as well."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and _name(node.value) in MAPPINGS and isinstance(node.slice, ast.Tuple):
            key, value = node.slice.elts
            if _name(key) == "str" and _name(value) in UNTYPED_VALUES:
                yield ast.unparse(node)
        elif isinstance(node, ast.arg | ast.AnnAssign | Function):
            annotation = node.returns if isinstance(node, Function) else node.annotation
            if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
                yield from _untyped(ast.parse(annotation.value))


def _settings(sources: Sequence[Source]) -> tuple[str, frozenset[str]]:
    """The file that defines the settings of a run, and their names."""
    for source in sources:
        for node in ast.walk(source.tree):
            if isinstance(node, ast.ClassDef) and node.name == SPEC_CLASS:
                targets = (line.target for line in node.body if isinstance(line, ast.AnnAssign))
                return source.name, frozenset(target.id for target in targets if isinstance(target, ast.Name))
    raise SystemExit(f"No file of this package defines {SPEC_CLASS}: the lists of settings cannot be counted.")


def _settings_lists(source: Source, fields: frozenset[str]) -> Iterator[str]:
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Tuple | ast.List | ast.Set):
            items: list[ast.expr | None] = list(node.elts)
        elif isinstance(node, ast.Dict):
            items = list(node.keys)
        else:
            continue
        names = [item.value for item in items if isinstance(item, ast.Constant) and isinstance(item.value, str)]
        if len(names) >= 2 and len(names) == len(items) and fields.issuperset(names):
            yield f"{source.name}:{node.lineno} {', '.join(names)}"


def _functions(source: Source) -> Iterator[tuple[str, int]]:
    """Every function with its lines of code, the signature and inner functions included."""
    lines = source.code_lines
    for node in ast.walk(source.tree):
        if isinstance(node, Function):
            yield f"{source.name}:{node.name}", len(lines.intersection(_span(node)))


def _docstrings(tree: ast.Module) -> Iterator[ast.Expr]:
    """Texts that stand alone as statements: of modules, classes and functions, and below fields."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node


def _span(node: ast.Expr | Function) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


def _name(node: ast.expr) -> str | None:
    """The last part of a dotted name."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else None


def changed_files(commit: str) -> list[str]:
    """The files that a commit of this repository changed, added or removed."""
    command = ["git", "-C", str(ROOT), "diff-tree", "-r", "--root", "--no-commit-id", "--name-only", commit]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def _print(counts: Counts, commits: dict[str, list[str]]) -> None:
    print("| what | count |\n|---|---|")
    for name, meaning in MEANINGS.items():
        value = getattr(counts, name)
        if name == "untyped_kinds":
            value = ", ".join(f"{number} × `{kind}`" for kind, number in value.items()) or "–"
        elif isinstance(value, list | dict):
            value = len(value)
        elif isinstance(value, tuple):
            value = f"{value[1]:,} (`{value[0]}`)"
        print(f"| {meaning} | {value:,} |" if isinstance(value, int) else f"| {meaning} | {value} |")
    for commit, files in commits.items():
        print(f"| files changed by {commit} | {len(files):,} |")
    for name, places in counts.repeated_classes.items():
        print(f"\nclass {name}: {', '.join(places)}", end="")
    for text in counts.settings_lists:
        print(f"\nsettings {text}", end="")
    for commit, files in commits.items():
        print(f"\n{commit}: {', '.join(files)}", end="")
    print()


def main() -> None:
    """Count and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("package", nargs="?", type=Path, default=ROOT / "paceline")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--commits", nargs="+", default=[], help="count the files that each of these changed")
    arguments = parser.parse_args()
    counts = count(arguments.package)
    commits = {commit: changed_files(commit) for commit in arguments.commits}
    if arguments.json:
        print(json.dumps({**asdict(counts), "commits": commits}, indent=2))
    else:
        _print(counts, commits)


if __name__ == "__main__":
    main()
