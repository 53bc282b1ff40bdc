"""Platform ``cpu``, so that stock veRL trains without an accelerator.

veRL imports this module in every process and selects the platform by ``VERL_PLATFORM=cpu``; both
are its own, documented extension points.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import torch
from verl.plugin.platform.platform_base import PlatformBase
from verl.plugin.platform.platform_manager import PlatformRegistry

_GIB = 2**30


class CpuDevice(ModuleType):
    """Interface of ``torch.cuda``, as far as veRL calls it; all else is ``torch.cpu``."""

    def __init__(self) -> None:
        super().__init__("cpu_device")

    def __getattr__(self, name: str) -> Any:
        return getattr(torch.cpu, name)

    def device_count(self) -> int:
        return 1

    def current_device(self) -> torch.device:
        return torch.device("cpu")

    def get_device_name(self, _index: int = 0) -> str:
        return "CPU"

    def is_available(self) -> bool:
        return False

    def set_device(self, _device: object) -> None: ...

    def synchronize(self, _device: object = None) -> None: ...

    def empty_cache(self) -> None: ...

    def ipc_collect(self) -> None: ...

    def reset_peak_memory_stats(self, _device: object = None) -> None: ...

    def memory_allocated(self, _device: object = None) -> int:
        return 0

    memory_reserved = max_memory_allocated = max_memory_reserved = memory_allocated

    def mem_get_info(self, _device: object = None) -> tuple[int, int]:
        return 8 * _GIB, 16 * _GIB

    def manual_seed(self, seed: int) -> None:
        torch.manual_seed(seed)

    manual_seed_all = manual_seed


_DEVICE = CpuDevice()


@PlatformRegistry.register(platform="cpu")
class PlatformCpu(PlatformBase):  # type: ignore[misc]
    """Platform of one CPU in place of one GPU; for Ray it is the logical resource ``GPU``."""

    device_name = "cpu"
    vendor_name = "generic"
    device_module = _DEVICE

    def is_available(self) -> bool:
        return False

    def is_platform_available(self, use_smi_check: bool = False) -> bool:
        return True

    def current_device(self) -> torch.device:
        return _DEVICE.current_device()

    def device_count(self) -> int:
        return _DEVICE.device_count()

    def set_device(self, device_index: int) -> None: ...

    def synchronize(self, device_index: int | None = None) -> None: ...

    def manual_seed(self, seed: int) -> None:
        torch.manual_seed(seed)

    manual_seed_all = manual_seed

    def set_allocator_settings(self, settings: str) -> None: ...

    def empty_cache(self) -> None: ...

    def get_device_capability(self, device_index: int = 0) -> tuple[None, None]:
        return None, None

    def communication_backend_name(self) -> str:
        return "gloo"

    def visible_devices_envvar(self) -> str:
        return "CUDA_VISIBLE_DEVICES"

    @contextmanager
    def nvtx_range(self, msg: str) -> Iterator[None]:
        yield

    def profiler_start(self) -> None: ...

    def profiler_stop(self) -> None: ...

    def ray_resource_name(self) -> str:
        return "GPU"

    def ray_noset_envvars(self) -> list[str]:
        return []

    def is_ipc_supported(self) -> bool:
        return False

    def cudart(self) -> None: ...


def _name_the_cpu_once() -> None:
    """Allow veRL to name one backend for both CPU and device; torch refuses one named twice."""
    original = torch.distributed.init_process_group

    def init_process_group(backend: str | None = None, **settings: Any) -> None:
        if backend is not None:
            backend = ",".join(dict.fromkeys(backend.split(",")))
        original(backend, **settings)

    torch.distributed.init_process_group = init_process_group  # type: ignore[assignment]


_name_the_cpu_once()
