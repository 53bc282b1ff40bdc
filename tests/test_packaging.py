"""What the code imports is declared, in the extra it belongs to; what is declared is pinned."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Iterator, Mapping
from fnmatch import fnmatch
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from evoprompt.experiments.config import load

ROOT = Path(__file__).parent.parent
OURS = {
    "evoprompt": ROOT,
    "evoprompt-search-qa": ROOT / "examples/search_qa",
    "evoprompt-tiny-policy": ROOT / "examples/tiny_policy",
    "evoprompt-calculator": ROOT / "examples/calculator",
    "evoprompt-smollm2": ROOT / "examples/smollm2",
    "evoprompt-sql": ROOT / "examples/sql",
    "evoprompt-retrieval": ROOT / "plugins/evoprompt-retrieval",
    "evoprompt-gepa": ROOT / "plugins/evoprompt-gepa",
    "evoprompt-gym": ROOT / "plugins/evoprompt-gym",
    "evoprompt-hello": ROOT / "plugins/evoprompt-hello",
    "evoprompt-verifiers": ROOT / "plugins/evoprompt-verifiers",
    "evoprompt-verl-cpu": ROOT / "plugins/evoprompt-verl-cpu",
}
CODE = {
    # trl, verl: the hosts of runs
    "evoprompt": "evoprompt[lm,endpoint,gateway,lora,ray,slurm,report,trl,verl]",
    "adapters/evoprompt_tinker": "evoprompt[tinker]",
    "adapters/evoprompt_trl": "evoprompt[trl]",
    "adapters/evoprompt_verl": "evoprompt[verl]",
    "adapters/hydra_plugins": "evoprompt[verl]",
    "examples/search_qa/evoprompt_search_qa": "evoprompt-search-qa[data,verl]",
    "examples/tiny_policy/evoprompt_tiny": "evoprompt-tiny-policy",
    "examples/calculator/evoprompt_calculator": "evoprompt-calculator",
    "examples/sql/evoprompt_sql": "evoprompt-sql",
    "plugins/evoprompt-retrieval/evoprompt_retrieval": "evoprompt-retrieval[dense]",
    "plugins/evoprompt-gepa/evoprompt_gepa": "evoprompt-gepa",
    "plugins/evoprompt-gym/evoprompt_gym": "evoprompt-gym",
    "plugins/evoprompt-verifiers/evoprompt_verifiers": "evoprompt-verifiers",
    "plugins/evoprompt-verl-cpu/evoprompt_verl_cpu": "evoprompt-verl-cpu",
}
TESTS = (
    *("tests", "plugins", "benchmarks"),
    *(f"examples/{name}/tests" for name in ("search_qa", "tiny_policy", "calculator", "sql")),
)
CONSTRAINTS = {
    "constraints.txt": (
        "evoprompt[dev,docs]",
        "evoprompt-retrieval[dense]",
        "evoprompt-search-qa[data,verl]",
        "evoprompt-calculator[verl]",
        "evoprompt-gepa",
        "evoprompt-gym",
    ),
    "constraints-trl-vllm.txt": (
        "evoprompt[trl-vllm]",
        "evoprompt-retrieval[dense]",
        "evoprompt-search-qa[data]",
    ),
    "constraints-verl-vllm.txt": (
        "evoprompt[verl-vllm]",
        "evoprompt-retrieval[dense]",
        "evoprompt-search-qa[data,verl]",
    ),
}


def declared(requirement: Requirement) -> Iterator[str]:
    """Every distribution that a requirement of ours names, through our own extras."""
    name = canonicalize_name(requirement.name)
    yield name
    if name not in OURS:
        return
    text = (OURS[name] / "pyproject.toml").read_text(encoding="utf-8")
    project = tomllib.loads(text)["project"]
    extras = project.get("optional-dependencies", {})
    for wanted in (*project["dependencies"], *(w for e in requirement.extras for w in extras[e])):
        yield from declared(Requirement(wanted))


IMPORT = re.compile(r"^ *(?:import|from) (\w+)(?=[\w., ]*(?:#|$)|[\w.]* import )", re.MULTILINE)


def imported(folder: Path) -> set[str]:
    """Top-level modules that the files of a folder import when they are run."""
    return {
        module
        for path in folder.rglob("*.py")
        for module in IMPORT.findall(path.read_text(encoding="utf-8"))
    }


@cache
def owners() -> Mapping[str, list[str]]:
    return packages_distributions()


def undeclared(modules: set[str], requirements: tuple[str, ...]) -> set[str]:
    known = {name for text in requirements for name in declared(Requirement(text))}
    found = {m: {canonicalize_name(name) for name in owners().get(m, ())} for m in modules}
    return {m for m, names in found.items() if names and not names & (known | OURS.keys())}


def test_what_the_code_imports_is_declared_by_its_extra() -> None:
    for folder, requirement in CODE.items():
        modules = imported(ROOT / folder)
        assert modules
        assert undeclared(modules, (requirement,)) == set(), folder


@pytest.mark.slow
def test_what_tests_import_comes_with_the_development_environment() -> None:
    for folder in TESTS:
        assert undeclared(imported(ROOT / folder), CONSTRAINTS["constraints.txt"]) == set(), folder


@pytest.mark.parametrize(("file", "requirements"), CONSTRAINTS.items())
def test_whatever_is_declared_is_pinned(file: str, requirements: tuple[str, ...]) -> None:
    text = (ROOT / file).read_text(encoding="utf-8")
    pins = [Requirement(line) for line in text.splitlines() if not line.startswith("#")]
    assert all(re.fullmatch(r"==[\w.!+]+", str(pin.specifier)) for pin in pins), "not one version"
    assert all(pin.url is None for pin in pins), "an address"
    names = {canonicalize_name(pin.name) for pin in pins}
    wanted = {name for text in requirements for name in declared(Requirement(text))}
    assert wanted - OURS.keys() <= names, "run .ci/constraints"


@pytest.mark.parametrize(
    "file", sorted((ROOT / "hashes").glob("*.txt")), ids=lambda file: file.stem
)
def test_what_ci_and_containers_install_has_hashes_of_the_pinned_versions(file: Path) -> None:
    constraints = ROOT / file.name if (ROOT / file.name).exists() else ROOT / "constraints.txt"
    versions = [re.split(" |$", pin)[0] for pin in constraints.read_text("utf-8").splitlines()]
    lines = file.read_text(encoding="utf-8").splitlines()
    hashed = [re.split(" ", line)[0] for line in lines]
    assert set(hashed) <= set(versions), "run .ci/constraints"
    if file.name == constraints.name:
        assert set(versions) - set(hashed) <= {"#", "pywin32==312"}, "run .ci/constraints"
    hashes = r"(?: --hash=sha256:[0-9a-f]{64})+(?: # source)?$"
    assert all(re.search(hashes, line) for line in lines)


RECIPES = ROOT / "examples" / "search_qa"
GUIDES = {
    **dict.fromkeys(("qwen2.5-0.5b-trl", "qwen2.5-3b-trl", "qwen2.5-7b-trl"), "docs/search-qa.md"),
    **dict.fromkeys(("qwen2.5-1.5b-trl-lora", "qwen2.5-3b-trl-lora"), "docs/search-qa.md"),
    **dict.fromkeys(
        ("qwen2.5-3b-verl", "qwen2.5-7b-verl", "qwen2.5-3b-verl-lora"), "docs/search-qa.md"
    ),
    "tiny-verl": "docs/search-qa.md",
}
"""Where the command is that installs for a recipe; the README for all others."""

NAMED = {
    "lm": {"dspy", "litellm"},
    "lora": {"peft"},
    "use_vllm": {"vllm"},
    "tensorboard": {"tensorboard"},
}
"""What a word in a recipe stands for, beside the names of hosts."""


def words(settings: object) -> Iterator[str]:
    """Every key that is on, and every text, of nested settings."""
    if isinstance(settings, Mapping):
        for key, value in settings.items():
            if value not in (False, None):
                yield str(key)
                yield from words(value)
    elif isinstance(settings, list | tuple):
        for value in settings:
            yield from words(value)
    elif isinstance(settings, str):
        yield settings


def named(recipe: Path) -> set[str]:
    """Distributions that a recipe names."""
    config = load(recipe)
    found = set(words(config.model_dump()))
    wanted = {name for word, names in NAMED.items() if word in found for name in names}
    hosts = {config.host["name"]} & {"trl", "verl"}
    # The tiny task brings a rollout backend of its own; all others take veRL's default.
    rollouts = {"vllm"} if "verl" in hosts and config.task["name"] != "search-qa" else set()
    return wanted | {str(host) for host in hosts} | rollouts


def installed_by(guide: Path, recipe: Path) -> set[str]:
    """Distributions that the guide's last installation before the recipe brings."""
    lines = [line.lstrip("# ") for line in guide.read_text(encoding="utf-8").splitlines()]
    uses = [number for number, line in enumerate(lines) if recipe.name in line]
    last = uses[0] if uses else lines.index("```")
    (*_, command) = [line for line in lines[: last + 1] if line.startswith("pip install ")]
    folders = {path.resolve(): name for name, path in OURS.items()}
    found: set[str] = set()
    for argument in shlex.split(command.partition(" && ")[0]):
        if match := re.fullmatch(r"(\.|examples/[\w-]+|plugins/[\w-]+)(\[.*\])?", argument):
            name = folders[(ROOT / match[1]).resolve()]
            found |= set(declared(Requirement(f"{name}{match[2] or ''}")))
    return found


def test_whatever_a_recipe_names_is_installed_by_the_commands_of_its_guide() -> None:
    for recipe in RECIPES.glob("*.yaml"):
        if "task:" in recipe.read_text(encoding="utf-8"):  # else an agent loop that a recipe names
            guide = ROOT / GUIDES.get(recipe.stem, "README.md")
            assert named(recipe) - installed_by(guide, recipe) == set(), recipe.stem


@pytest.mark.parametrize(
    "file", sorted((ROOT / "containers").iterdir()), ids=lambda path: path.stem
)
def test_images_are_pinned_by_digest_and_hold_what_is_named_alone(file: Path) -> None:
    lines = file.read_text(encoding="utf-8").splitlines()
    (base,) = (line for line in lines if line.startswith("FROM "))
    assert re.search(r"@sha256:[0-9a-f]{64}$", base)
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    first, *rest = (line for line in ignored if not line.startswith("#"))
    assert first == "*"
    kept = {line[1:] for line in rest if line.startswith("!")}
    copied = {word for line in lines if line.startswith("COPY ") for word in line.split()[1:-1]}
    assert {word.partition("/")[0] for word in copied - {"."}} <= kept | {"constraints.txt"}
    left = [line.removeprefix("**/") for line in rest if not line.startswith("!")]
    for name in (".env", "id_rsa", "me.pem", "me.p12", "credentials.json", "client_secret.json"):
        assert any(fnmatch(name, one) for one in left), name


def test_actions_are_named_by_commit() -> None:
    root = Path(__file__).parents[1]
    lines = [
        line.strip()
        for file in (root / ".github" / "workflows").glob("*.yml")
        for line in file.read_text(encoding="utf-8").splitlines()
        if "uses:" in line
    ]
    assert lines
    for line in lines:
        assert re.fullmatch(r"- uses: [\w/-]+@[0-9a-f]{40} # v[\d.]+", line), line
