"""What compare.py writes of the machine it ran on."""

import json
import os
import platform
import subprocess
import time
from importlib.metadata import PackageNotFoundError, version

from runtime_process import Lost, run_bounded

PACKAGES = ("torch", "triton", "onnxruntime", "openvino", "transformers")
GPU_FIELDS = {"name": "name", "driver": "driver_version", "sm_mhz": "clocks.sm", "memory_mhz": "clocks.mem",
              "most_sm_mhz": "clocks.max.sm", "celsius": "temperature.gpu", "watt": "power.draw",
              "most_watt": "power.limit", "state": "pstate"}


def parse_gpu(line):
    """Fields by name of a line of nvidia-smi; what it does not know is None."""
    values = [value.strip() for value in line.split(",")]
    if len(values) != len(GPU_FIELDS):
        return None
    return {name: None if value.startswith("[") or not value else value for name, value in zip(GPU_FIELDS, values)}


def read_gpu(device):
    """Name, driver, clocks, heat and power of nvidia:N now; None for other devices and where nvidia-smi is missing."""
    if not device.startswith("nvidia"):
        return None
    command = ["nvidia-smi", f"--query-gpu={','.join(GPU_FIELDS.values())}", "--format=csv,noheader,nounits", "-i",
               device.partition(":")[2] or "0"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return parse_gpu(done.stdout.strip()) if done.returncode == 0 else None


def read_version(package):
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def ask_kpt(arguments, *words):
    """What kpt prints; ends the program with one sentence when kpt does not end."""
    try:
        return run_bounded([str(arguments.build / "bin" / "kpt"), *words], None, arguments.limit_s).stdout.strip()
    except Lost as reason:
        raise SystemExit(f"compare: {reason}") from None


def describe(arguments):
    doctor = json.loads(ask_kpt(arguments, "doctor", "--json", "--category", "cpu") or "{}")
    cpu = next((line["message"] for line in doctor.get("diagnostics", []) if line.get("category") == "cpu"),
               platform.processor() or platform.machine())
    return {"cpu": cpu, "machine": platform.machine(), "threads": arguments.threads, "device": arguments.device,
            "gpu": read_gpu(arguments.device), "versions": {name: read_version(name) for name in PACKAGES},
            "kpt": ask_kpt(arguments, "--version").splitlines(), "load_average": os.getloadavg()[0],
            "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "rounds": arguments.rounds,
            "optimize": arguments.optimize, "start_together": arguments.start_together}
