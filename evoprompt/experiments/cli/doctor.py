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
from packaging.utils import canonicalize_name
from packaging.version import Version

Level = Literal["ok", "note", "problem"]
STYLES: dict[Level, str] = {"ok": "green", "note": "yellow", "problem": "red"}

HOSTS = ("trl", "verl", "dspy", "transformers")
"""Distributions whose own requirements are checked against what is installed."""


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
    """Check packages, plugins, GPU, memory and disk.

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
    from evoprompt.plugins import plugins

    versions = installed_versions()
    yield Finding("ok", "Python", platform.python_version())
    yield from packages(versions)
    yield from conflicts(versions)
    found = plugins()
    yield Finding("ok", "plugins", "; ".join(sorted({str(c.source) for c in found.components()})))
    for problem in found.problems:
        remedy = "fix, uninstall or block it with EVOPROMPT_BLOCK"
        yield Finding("problem", "plugins", problem, remedy)
    yield gpu(versions)
    try:
        memory = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
        text = f"{memory:.1f} GiB free; {os.cpu_count() or 1} CPU cores"
    except (ValueError, OSError):  # not every system tells
        text = f"unknown; {os.cpu_count() or 1} CPU cores"
    yield Finding("ok", "memory", text)
    free = shutil.disk_usage(Path.cwd()).free / 2**30
    yield Finding("ok", "disk", f"{free:.1f} GiB free in {Path.cwd()}")


def installed_versions() -> dict[str, Version]:
    """Version of every installed distribution, by its name in lower case with hyphens."""
    found: dict[str, Version] = {}
    for distribution in metadata.distributions():
        # The first on the path is the one that is imported.
        found.setdefault(canonicalize_name(distribution.name), Version(distribution.version))
    return found


def packages(versions: Mapping[str, Version]) -> Iterator[Finding]:
    """One line for each package of the core, then one for each of the extras."""
    extras = metadata.metadata("evoprompt").get_all("Provides-Extra") or []
    told: set[str] = set()
    for extra in ("", *(one for one in extras if one not in ("dev", "test"))):
        for requirement in map(Requirement, metadata.requires("evoprompt") or ()):
            marker = requirement.marker
            wanted = marker is None or marker.evaluate({"extra": extra})
            if wanted and not requirement.extras and requirement.name not in (*told, "evoprompt"):
                told.add(requirement.name)
                yield _package(requirement, extra, versions)


def _package(requirement: Requirement, extra: str, versions: Mapping[str, Version]) -> Finding:
    version = versions.get(canonicalize_name(requirement.name))
    wanted = str(requirement.specifier) or "any version"
    if version is None and extra:
        text = f"not installed; the extra {extra!r} needs {wanted}"
        return Finding("note", requirement.name, text, f'pip install "evoprompt[{extra}]"')
    # A clone's own version is a development one.
    if version and requirement.specifier.contains(version, prereleases=True):
        return Finding("ok", requirement.name, f"{version} (supported: {wanted})")
    text = f"{version or 'not installed'}; {wanted} is required"
    remedy = f'pip install "{requirement.name}{requirement.specifier}"'
    return Finding("problem", requirement.name, text, remedy)


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
    for host in (host for host in HOSTS if host in versions):
        for requirement in map(Requirement, _declared(host)):
            version = versions.get(canonicalize_name(requirement.name))
            if requirement.marker and not requirement.marker.evaluate({"extra": ""}):
                continue
            if version and not requirement.specifier.contains(version, prereleases=True):
                wanted = f"{requirement.name}{requirement.specifier}"
                text = f"{host} {versions[host]} requires {wanted}, installed is {version}"
                subject = f"{host} + {requirement.name}"
                yield Finding("problem", subject, text, f'pip install "{wanted}"')


def _declared(package: str) -> list[str]:
    try:
        return metadata.requires(package) or []
    except metadata.PackageNotFoundError:  # asked about a version that is not installed here
        return []


def gpu(versions: Mapping[str, Version]) -> Finding:
    """The GPUs, and whether torch can use them."""
    program = shutil.which("nvidia-smi")
    listed: Sequence[str] = ()
    if program is not None:
        query = [program, "--query-gpu=name,memory.total,memory.free", "--format=csv,noheader"]
        answer = subprocess.run(query, capture_output=True, text=True, check=False, timeout=20)
        listed = answer.stdout.splitlines() if answer.returncode == 0 else ()
    if not listed:
        return Finding("note", "GPU", "none found; the tiny example runs on a CPU")
    torch, described = versions.get("torch"), "; ".join(listed)
    if torch is not None and torch.local == "cpu":
        text = f"{described}, but torch {torch} cannot use it"
        remedy = "install a CUDA build of torch, see pytorch.org"
        return Finding("problem", "GPU", text, remedy)
    return Finding("ok", "GPU", described)
