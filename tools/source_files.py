"""The files of the tree, for the checks beside this one."""

import os
import re
import subprocess
import zlib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def list_files(*suffixes):
    """Paths from the root, sorted: what git tracks or would track; without git, everything but build folders."""
    try:
        listing = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True)
        names = listing.stdout.splitlines()
    except (OSError, subprocess.CalledProcessError):
        names = [str(p.relative_to(ROOT)) for p in ROOT.rglob("*") if p.is_file() and p.relative_to(ROOT).parts[0] not in ("build", ".git", "dist")]
    return sorted(name for name in names if name.endswith(suffixes) and (ROOT / name).is_file())


def usable_cores():
    return len(os.sched_getaffinity(0))


def sources_of(path):
    """The files, from the root, that an entry of compile_commands.json compiles: itself, or those that CMake joined into it;
    none for files of others."""
    path = Path(path)
    if path.is_relative_to(ROOT / "build"):
        if path.parent.name != "Unity":
            return []
        names = re.findall(r'^#include "([^"]+)"', path.read_text(), re.MULTILINE)
        return [str(Path(name).relative_to(ROOT)) for name in names if not Path(name).is_relative_to(ROOT / "build")]
    return [str(path.relative_to(ROOT))] if path.is_relative_to(ROOT) else []


def make_chooser():
    """What the slow checks look at: everything, or with KPT_LINT_SHARE=N, as CI has it, what the last eight commits or nobody
    yet committed changed and one in N of the rest, another with each commit. A function of the names of some sources."""
    share = int(os.environ.get("KPT_LINT_SHARE") or 1)
    if share <= 1:
        return lambda names: True

    def git(*words):
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True).stdout.split("\n")
    changed = {*git("log", "-8", "--format=", "--name-only"), *git("diff", "--name-only", "HEAD"),
               *git("ls-files", "-o", "--exclude-standard")}
    turn = zlib.crc32(git("rev-parse", "HEAD")[0].encode())
    return lambda names: (not changed.isdisjoint(names)
                          or any((zlib.crc32(name.encode()) + turn) % share == 0 for name in list(names)[:1]))
