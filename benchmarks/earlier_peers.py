"""Figures of other runtimes taken from an earlier run of compare.py. Pure functions."""

import operator
import statistics

PACKAGES = ("torch", "triton", "transformers")  # what the peers' speed and the model itself come from
NOTES = ("load_s", "first_answer_s")


def find_differences(earlier, now):
    """Why figures of one machine's description do not hold on the other's; an empty list where they do."""
    def facts(machine):
        gpu = machine.get("gpu") or {}
        return {"GPU": gpu.get("name"), "driver": gpu.get("driver"),
                **{package: machine["versions"].get(package) for package in PACKAGES},
                "processor": machine["cpu"], "device": machine.get("device"), "threads": machine["threads"]}
    before, after = facts(earlier), facts(now)
    return [f"its {name} is {before[name]}, here it is {after[name]}" for name in before
            if not (agree if name in PACKAGES else operator.eq)(before[name], after[name])]


def agree(one, other):
    """Whether two versions may be the same: a package's metadata may lack the local part that the package tells."""
    if one is None or other is None or ("+" in one) == ("+" in other):
        return one == other
    return one.partition("+")[0] == other.partition("+")[0]


def find_median(row, runtime):
    for group in row.get("rounds", []):
        if runtime in group:
            return statistics.median(group[runtime])
    return row.get("taken", {}).get(runtime, {}).get("median_ms")


def take(earlier, source, row, runtimes, ours):
    """Notes in `row` what the earlier run found of the peers among `runtimes`; returns those that must be measured.

    Eager is always measured again: it pairs with ours. A peer that could not take part then is not tried again.
    """
    known = next((found for found in earlier["models"] if found["name"] == row["name"] and "failed" not in found), None)
    if known is None:
        return runtimes
    row["taken"] = {}
    left = []
    for name in runtimes:
        median = find_median(known, name)
        if name == "eager" or name in ours or (median is None and name not in known["absent"]):
            left.append(name)
        elif median is None:
            row["absent"][name] = f"{known['absent'][name]} (in {source})"
        else:
            origin = known.get("taken", {}).get(name, {}).get("source")
            row["taken"][name] = {"median_ms": median, "source": f"{origin} (in {source})" if origin else source}
            if name in known["checks"]:
                row["checks"][name] = known["checks"][name]
            for note in NOTES:
                if name in known.get(note, {}):
                    row.setdefault(note, {})[name] = known[note][name]
    if "package" in known and "aoti" in row["taken"]:
        row["package"] = known["package"]
    return tuple(left)
