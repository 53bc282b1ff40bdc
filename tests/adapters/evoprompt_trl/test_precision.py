from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from evoprompt_trl.precision import native_bf16, slow_bf16

AVX512 = {"avx2": True, "avx512_f": True, "avx512_bw": True, "avx512_vnni": True}
AMX = {**AVX512, "avx512_bf16": True, "amx_bf16": True, "amx_tile": True}


@pytest.mark.parametrize(
    ("flags", "native"),
    [
        ({**AVX512, "avx512_bf16": False}, False),  # oneDNN takes it, and converts
        (AMX, True),
        ({"neon": True, "sve": True, "bf16": True, "architecture": "aarch64"}, True),
    ],
)
def test_a_cpu_has_instructions_for_bfloat16_or_not(
    flags: dict[str, bool], native: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: flags)
    assert native_bf16("cpu") is native
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    assert native_bf16("cpu") is False


def test_of_a_gpu_what_is_emulated_does_not_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def supported(including_emulation: bool = True) -> bool:
        return including_emulation

    monkeypatch.setattr(torch.cuda, "is_bf16_supported", supported)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert native_bf16("cuda") is False
    assert native_bf16() is False  # there is one, so a trainer takes it
    assert native_bf16("mps") is True  # of which nothing is known


def trainer(device: str, mixed: str, weights: torch.dtype) -> Any:
    parameters: Callable[[], Any] = lambda: iter([torch.zeros(2, dtype=weights)])  # noqa: E731
    accelerator = SimpleNamespace(device=torch.device(device), mixed_precision=mixed)
    return SimpleNamespace(accelerator=accelerator, model=SimpleNamespace(parameters=parameters))


@pytest.mark.parametrize(
    ("device", "mixed", "weights", "said"),
    [
        ("cpu", "bf16", torch.float32, ["bf16=False"]),
        ("cpu", "no", torch.bfloat16, ["dtype=torch.float32"]),
        ("meta", "bf16", torch.float32, []),
    ],
)
def test_the_remedy_is_for_what_makes_it_slow(
    device: str,
    mixed: str,
    weights: torch.dtype,
    said: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx2": True})
    found = slow_bf16(trainer(device, mixed, weights))
    assert bool(found) is bool(said)
    remedies = [text for text in ("bf16=False", "dtype=torch.float32") if text in found]
    assert remedies == said
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: AMX)
    assert slow_bf16(trainer(device, mixed, weights)) == ""
