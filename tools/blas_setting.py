"""To be imported before torch. The BLAS of the aarch64 wheels (NVPL) hangs for ever on a processor whose vector extension
SVE is hidden by the hypervisor; told which kind of processor to assume, it works. src/engines/aten/loader.cpp does the
same for our own programs."""

import os
import platform
from pathlib import Path


def has_sve():
    try:
        return " sve" in Path("/proc/cpuinfo").read_text()
    except OSError:
        return True


if platform.machine() == "aarch64" and not has_sve():
    os.environ.setdefault("NVPL_BLAS_DEBUG_CPU_TYPE", "1")
