"""``evoprompt doctor``: whether this machine can run, and what to do where it cannot."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal

import typer
from evoprompt_trl.host import TESTED
from evoprompt_verl.versions import findings as verl_findings
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

Level = Literal["ok", "note", "problem"]
STYLES: dict[Level, str] = {"ok": "green", "note": "yellow", "problem": "red"}

HOSTS = ("trl", "verl", "dspy", "transformers")
"""Distributions whose own requirements are checked against what is installed."""

LITTLE = 4 * 2**30
"""Bytes of memory or disk under which a run may not fit."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the doctor.

    Attributes:
        level: a note may matter to some, a problem will stop a run.
        subject: what was looked at.
        text: what was found.
        remedy: what to do about it, empty when nothing.
    """

    level: Level
    subject: str
    text: str
    remedy: str = ""


def doctor() -> None:
    """Check Python, packages, plugins, GPU, memory and disk.

    One line each, with the remedy. Exit code 1 if there is a problem.
    """
    from rich.console import Console
    from rich.text import Text

    console = Console()
    problems = 0
    for finding in findings():
        problems += finding.level == "problem"
        remedy = f" -> {finding.remedy}" if finding.remedy else ""
        line = Text.assemble(
            (f"{finding.level:8}", STYLES[finding.level]),
            (f"{finding.subject:14} ", "bold"),
            finding.text,
            (remedy, "cyan"),
        )
        console.print(line, soft_wrap=True)
    if problems:
        raise typer.Exit(1)


def findings() -> Iterator[Finding]:
    """Everything the doctor looks at, one after the other."""
    versions = installed_versions()
    yield _python()
    yield from packages(versions)
    found = list(conflicts(versions))
    yield from found or [Finding("ok", "conflicts", "none known between the packages here")]
    yield from _plugins()
    yield gpu(versions)
    yield _memory()
    yield _disk()


def installed_versions() -> dict[str, Version]:
    """Version of every installed distribution, by its name in lower case with hyphens."""
    found: dict[str, Version] = {}
    for distribution in metadata.distributions():
        # The first on the path is the one that is imported.
        found.setdefault(canonicalize_name(distribution.name), Version(distribution.version))
    return found


def _python() -> Finding:
    supported = SpecifierSet(metadata.metadata("evoprompt")["Requires-Python"])
    version = platform.python_version()
    if Version(version) in supported:
        return Finding("ok", "Python", f"{version} (supported: {supported})")
    return Finding(
        "problem",
        "Python",
        f"{version}, but {supported} is required",
        "make the virtual environment with a supported Python",
    )


def packages(versions: Mapping[str, Version]) -> Iterator[Finding]:
    """One line for the core, then one for each extra's packages."""
    by_extra: dict[str, list[Requirement]] = {}
    for text in metadata.requires("evoprompt") or ():
        requirement = Requirement(text)
        extras = metadata.metadata("evoprompt").get_all("Provides-Extra") or []
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            by_extra.setdefault("", []).append(requirement)
            continue
        for extra in extras:
            if requirement.marker.evaluate({"extra": extra}):
                by_extra.setdefault(extra, []).append(requirement)
    told: set[str] = set()
    for extra, requirements in by_extra.items():
        for requirement in requirements:
            known = requirement.extras or str(requirement.name) == "evoprompt"
            text = f"{requirement.name}{requirement.specifier}"
            if extra in ("dev", "test") or known or text in told:
                continue
            told.add(text)
            yield _package(requirement, extra, versions)


def _package(requirement: Requirement, extra: str, versions: Mapping[str, Version]) -> Finding:
    version = versions.get(canonicalize_name(requirement.name))
    wanted = str(requirement.specifier) or "any version"
    if version is None and extra:
        text = f"not installed; the extra {extra!r} needs {wanted}"
        return Finding("note", requirement.name, text, f'pip install "evoprompt[{extra}]"')
    if version is None:
        text = f"not installed; {wanted} is required"
        return Finding("problem", requirement.name, text, f'pip install "{requirement}"')
    if not requirement.specifier.contains(version, prereleases=True):  # a clone's own, too
        remedy = f'pip install "{requirement.name}{requirement.specifier}"'
        return Finding("problem", requirement.name, f"{version}, but {wanted} is required", remedy)
    return Finding("ok", requirement.name, f"{version} (supported: {wanted})")


def conflicts(versions: Mapping[str, Version]) -> Iterator[Finding]:
    """Packages that do not go together, declared by themselves or known from experience."""
    trl, verl = versions.get("trl"), versions.get("verl")
    for found in verl_findings(str(verl) if verl else None, str(trl) if trl else None):
        subject = "trl + verl" if "TRL" in found.text else "verl"
        yield Finding("problem" if found.fatal else "note", subject, found.text, found.remedy)
    if trl and trl.release[:2] > Version(TESTED).release:
        yield Finding(
            "note",
            "trl",
            f"{trl} is newer than {TESTED}, the newest that evoprompt was tested with",
            f'should anything look odd: pip install "trl=={TESTED}.*"',
        )
    for host in HOSTS:
        if host not in versions:
            continue
        for text in _declared(host):
            requirement = Requirement(text)
            version = versions.get(canonicalize_name(requirement.name))
            if requirement.marker and not requirement.marker.evaluate({"extra": ""}):
                continue
            if version and not requirement.specifier.contains(version, prereleases=True):
                yield Finding(
                    "problem",
                    f"{host} + {requirement.name}",
                    f"{host} {versions[host]} requires {requirement.name}{requirement.specifier}, "
                    f"installed is {version}",
                    f'pip install "{requirement.name}{requirement.specifier}"',
                )


def _declared(package: str) -> list[str]:
    try:
        return metadata.requires(package) or []
    except metadata.PackageNotFoundError:  # asked about a version that is not installed here
        return []


def _plugins() -> Iterator[Finding]:
    from evoprompt.plugins import plugins

    found = plugins()
    sources = sorted({str(one.source) for one in found.components()})
    yield Finding("ok", "plugins", "; ".join(sources))
    for problem in found.problems:
        yield Finding(
            "problem", "plugins", problem, "fix, uninstall or block it with EVOPROMPT_BLOCK"
        )


def gpu(versions: Mapping[str, Version]) -> Finding:
    """The GPUs, and whether torch can use them."""
    program = shutil.which("nvidia-smi")
    fields = "--query-gpu=name,memory.total,memory.free"
    listed: Sequence[str] = ()
    if program is not None:
        answer = subprocess.run(
            [program, fields, "--format=csv,noheader"],
            capture_output=True,
            text=True,
            check=False,
            timeout=20,
        )
        listed = answer.stdout.splitlines() if answer.returncode == 0 else ()
    if not listed:
        return Finding("note", "GPU", "none found; the tiny example runs on a CPU")
    torch = versions.get("torch")
    described = "; ".join(listed)
    if torch is not None and torch.local == "cpu":
        return Finding(
            "problem",
            "GPU",
            f"{described}, but torch {torch} cannot use it",
            "install a CUDA build of torch, see pytorch.org",
        )
    return Finding("ok", "GPU", described)


def _memory() -> Finding:
    cores = os.cpu_count() or 1
    try:
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):  # not every system tells
        return Finding("note", "memory", f"unknown; {cores} CPU cores")
    text = f"{free / 2**30:.1f} GiB free; {cores} CPU cores"
    if free < LITTLE:
        return Finding("note", "memory", text, "close something, or expect small models only")
    return Finding("ok", "memory", text)


def _disk() -> Finding:
    free = shutil.disk_usage(Path.cwd()).free
    text = f"{free / 2**30:.1f} GiB free in {Path.cwd()}"
    if free < LITTLE:
        return Finding("note", "disk", text, "free some, checkpoints need room")
    return Finding("ok", "disk", text)
