"""What results were computed with: versions and machine."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from typing import Any

import dm2l


def versions() -> dict[str, str | None]:
    found: dict[str, str | None] = {"python": platform.python_version(), "dm2l": dm2l.__version__}
    for name in ("numpy", "scipy", "scikit-learn", "torch"):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = None
    return found


def machine(device: str | None) -> dict[str, Any]:
    name = device
    if device is not None:
        try:
            import torch
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                f"device={device!r} needs torch: pip install 'dm2l[gpu]'", name="torch"
            ) from error
        # A device that is not there stops the run before any fit. Without its libraries torch
        # asserts, under a name that it does not know it has another error.
        try:
            torch.zeros(1, device=device)
        except (AssertionError, RuntimeError) as error:
            reason = str(error).partition("\n")[0]
            raise ValueError(f"torch has no device {device!r} here: {reason}") from error
        if device.startswith("cuda"):
            name = torch.cuda.get_device_name(device)
    return {"cpus": os.cpu_count(), "platform": platform.platform(), "device": name}
