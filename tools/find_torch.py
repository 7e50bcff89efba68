"""Says where the PyTorch wheel of this interpreter lies, as JSON on standard output.

torch itself is not imported (that takes seconds and starts its libraries): the package is located and its version.py
read as text. Used by cmake/kpt_torch.cmake and by set-up scripts; needs nothing but the standard library.
"""

import importlib.util
import json
import os
import re
import sys


def read_assignment(text, name):
    """The string assigned to `name` in version.py, or "" for None and for a name that is not there."""
    match = re.search(rf"^{name}(?:\s*:[^=\n]*)?\s*=\s*['\"]([^'\"\n]*)['\"]", text, re.MULTILINE)
    return match.group(1) if match else ""


def find_torch():
    # The script's own folder is first in sys.path and is no place to look for packages.
    sys.path[:] = [entry for entry in sys.path if os.path.realpath(entry or ".") != os.path.dirname(os.path.realpath(__file__))]
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        return {"found": False, "reason": "no package torch"}
    folder = os.path.dirname(os.path.realpath(spec.origin))
    try:
        with open(os.path.join(folder, "version.py"), encoding="utf-8") as file:
            text = file.read(65536)
    except (OSError, UnicodeDecodeError) as error:
        return {"found": False, "reason": f"version.py of the package torch cannot be read ({error})"}
    version = read_assignment(text, "__version__")
    if not re.match(r"\d+\.\d+\.\d+", version):
        return {"found": False, "reason": f"version.py in {folder} names no version"}
    return {
        "found": True,
        "dir": folder,
        "version": re.match(r"\d+\.\d+\.\d+", version).group(0),
        "full_version": version,
        "cuda": read_assignment(text, "cuda"),
        "hip": read_assignment(text, "hip"),
    }


if __name__ == "__main__":
    print(json.dumps(find_torch()))
