"""The tables of compare.py: ratios with their 95 % intervals, geometric means, rows lost. Pure functions.

  compare_table.py results.json      prints the table of a finished run again
"""

import json
import math
import statistics
import sys

FP32_PEERS = ("eager", "compile", "compile_graphs", "compile_best", "aoti", "onnxruntime", "openvino")
TORCH = ("eager", "compile", "compile_graphs", "compile_best", "aoti")
CONVOLUTIONAL = ("resnet50", "resnet18", "mobilenet_v2", "convnext")
TITLES = {"eager": "eager", "compile": "torch.compile", "compile_best": "torch.compile best", "compile_graphs": "torch.compile graphs",
          "aoti": "AOTInductor", "onnxruntime": "ONNX Runtime",
          "openvino": "OpenVINO", "onnxruntime_int8": "ONNX Runtime INT8", "ours_plain": "ours, plain",
          "ours_conservative": "ours, conservative", "ours_balanced": "ours, balanced",
          "ours_aggressive": "ours, aggressive"}
# Outputs further from fp64 than this are wrong, and their time counts for nothing.
MOST_ERROR = 1e-3
LEAST_COSINE = 0.99


def order_interval(values, coverage=0.95):
    """Narrowest pair of order statistics that holds the median with `coverage` (the sign test's interval)."""
    values = sorted(values)
    n, tail, rank = len(values), 0.0, 0
    for k in range((n - 1) // 2 + 1):
        if 2 * k + 1 >= n:
            break
        tail += math.comb(n, k) / 2 ** n
        if 1 - 2 * tail < coverage:
            break
        rank = k
    return values[rank], values[n - 1 - rank]


def lossy(runtime):
    return runtime in ("onnxruntime_int8", "ours_balanced", "ours_aggressive")


def is_right(row, runtime):
    check = row["checks"].get(runtime)
    if check is None:
        return False
    coarse = lossy(runtime) or row.get("dtype") == "bfloat16"
    return check["cosine"] >= LEAST_COSINE if coarse else check["error"] <= MOST_ERROR


def times_of(row, runtime):
    for group in row["rounds"]:
        if runtime in group:
            return group[runtime]
    return None


def ratio(row, base, runtime):
    """(median, low, high) of base's time over runtime's, paired by round; None when one is missing."""
    for group in row["rounds"]:
        if base in group and runtime in group:
            values = [b / r for b, r in zip(group[base], group[runtime])]
            return (statistics.median(values), *order_interval(values))
    # Measured in different groups: each against eager in its own, and the intervals multiplied out.
    first, second = ratio_to_eager(row, base), ratio_to_eager(row, runtime)
    if first is None or second is None:
        return None
    return second[0] / first[0], second[1] / first[2], second[2] / first[1]


def ratio_to_eager(row, runtime):
    for group in row["rounds"]:
        if runtime in group and runtime != "eager":
            values = [b / r for b, r in zip(group["eager"], group[runtime])]
            return (statistics.median(values), *order_interval(values))
    return None


def best_of(row, runtimes):
    """The fastest of them whose outputs are right."""
    medians = {name: statistics.median(times_of(row, name)) for name in runtimes
               if times_of(row, name) is not None and is_right(row, name)}
    return min(medians, key=medians.get) if medians else None


def geometric_mean(values):
    return math.exp(sum(math.log(value) for value in values) / len(values)) if values else None


def format_ratio(value):
    return "–" if value is None else f"{value[0]:.2f} ({value[1]:.2f}–{value[2]:.2f})"


def runtimes_of(rows):
    found = {name for row in rows for group in row["rounds"] for name in group}
    return [name for name in TITLES if name in found]


def time_table(rows, runtimes):
    lines = ["| model | " + " | ".join(f"{TITLES[name]}, ms" for name in runtimes) + " |", "|" + "---|" * (len(runtimes) + 1)]
    for row in rows:
        cells = []
        for name in runtimes:
            times = times_of(row, name)
            text = "–" if times is None else f"{statistics.median(times):.2f}"
            cells.append(text if times is None or is_right(row, name) else text + " (wrong)")
        lines.append(f"| {row['name']} | " + " | ".join(cells) + " |")
    return lines


def ratio_table(rows, runtimes):
    compared = [name for name in runtimes if name != "eager"]
    lines = ["| model | " + " | ".join(TITLES[name] for name in compared) + " | best fp32 peer |", "|" + "---|" * (len(compared) + 2)]
    for row in rows:
        best = best_of(row, FP32_PEERS)
        cells = [format_ratio(ratio(row, "eager", name)) if is_right(row, name) else "–" for name in compared]
        lines.append(f"| {row['name']} | " + " | ".join(cells) + f" | {TITLES.get(best, '–')} |")
    means = []
    for name in compared:
        values = [ratio(row, "eager", name)[0] for row in rows if is_right(row, name) and ratio(row, "eager", name)]
        means.append(f"{geometric_mean(values):.2f} ({len(values)} of {len(rows)})" if values else "–")
    lines.append("| **geometric mean** | " + " | ".join(means) + " | |")
    return lines


def error_table(rows, runtimes):
    lines = ["| model | " + " | ".join(TITLES[name] for name in runtimes) + " |", "|" + "---|" * (len(runtimes) + 1)]
    for row in rows:
        cells = []
        for name in runtimes:
            check = row["checks"].get(name)
            cells.append("–" if check is None else f"{check['error']:.1e}")
        lines.append(f"| {row['name']} | " + " | ".join(cells) + " |")
    return lines


def judge(rows, runtime, peers, chosen=lambda row: True):
    """Geometric mean of a runtime's ratio to the best of `peers`, and the rows whose interval lies below 1."""
    values, lost = [], []
    for row in rows:
        best = best_of(row, peers)
        if not chosen(row) or best is None or not is_right(row, runtime):
            continue
        found = ratio(row, best, runtime)
        if found is None:
            continue
        values.append(found[0])
        if found[2] < 1:
            lost.append(f"{row['name']} {format_ratio(found)} against {TITLES[best]}")
    return {"mean": geometric_mean(values), "models": len(values), "lost": lost}


def convolutional(row):
    return row["architecture"] in CONVOLUTIONAL


GOALS = (
    ("ours_plain", ("eager",), "eager", None, None),
    ("ours_conservative", ("eager",), "eager", 1.15, None),
    ("ours_balanced", FP32_PEERS, "the best fp32 peer", 1.0, None),
    ("ours_balanced", TORCH, "the best of eager and torch.compile", 1.0, None),
    ("ours_balanced", ("eager",), "eager", 1.3, None),
    ("ours_aggressive", FP32_PEERS, "the best fp32 peer, transformers", 1.5, lambda row: not convolutional(row)),
    ("ours_aggressive", FP32_PEERS, "the best fp32 peer, convolutional", None, convolutional),
)


def full_table(results):
    """Markdown and the summary for results.json."""
    rows = [row for row in results["models"] if "failed" not in row]
    failed = [f"{row['name']}: {row['failed']}" for row in results["models"] if "failed" in row]
    machine = results["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items() if version)
    lines = [f"{machine['cpu']}, {machine['threads']} threads, {versions}, {machine['date']}, {machine['rounds']} rounds, "
             f"load average at the start {machine['load_average']:.2f}", ""]
    if not rows:
        return "\n".join(lines + failed) + "\n", {}
    runtimes = runtimes_of(rows)
    lines += ["Medians:", "", *time_table(rows, runtimes), "", "Eager's time over the runtime's (above 1: faster than eager), "
              "paired by round, with the 95 % interval of the median:", "", *ratio_table(rows, runtimes), "",
              "Largest error of an output against fp64, relative to its root mean square:", "", *error_table(rows, runtimes), ""]
    summary = []
    for runtime, peers, words, goal, chosen in GOALS:
        verdict = judge(rows, runtime, peers, chosen or (lambda row: True))
        if verdict["models"] == 0:
            continue
        wanted = "" if goal is None else f" (goal {goal:g})"
        lines.append(f"- {TITLES[runtime]} against {words}: geometric mean {verdict['mean']:.2f}{wanted} over "
                     f"{verdict['models']} models, rows lost: {len(verdict['lost'])}"
                     + "".join(f"; {text}" for text in verdict["lost"]))
        summary.append({"runtime": runtime, "against": words, "goal": goal, **verdict})
    absent = [f"- {row['name']}, {TITLES[name]}: {reason}" for row in rows for name, reason in row["absent"].items()]
    if absent or failed:
        lines += ["", "Not measured:", "", *absent, *[f"- {text}" for text in failed]]
    return "\n".join(lines) + "\n", summary


def startup_table(results):
    lines = [f"Process start to first answer, ms: median of the later starts (95 % interval; first start of all). "
             f"{results['machine']['cpu']}, {results['machine']['threads']} threads", ""]
    names = ["eager", "compile", "ours_plain", "ours_balanced"]
    lines += ["| model | " + " | ".join(TITLES[name] for name in names) + " | torch.compile over ours |", "|" + "---|" * 6]
    summary = []
    for row in results["models"]:
        if "failed" in row:
            lines.append(f"| {row['name']} | {row['failed']} |")
            continue
        cells = []
        for name in names:
            times = row["times_ms"].get(name)
            cells.append("–" if not times else "{:.0f} ({:.0f}–{:.0f}; {:.0f})".format(
                statistics.median(times), *order_interval(times), row["first_ms"][name]))
        ours = "ours_balanced" if row["times_ms"].get("ours_balanced") else "ours_plain"
        pair = [row["times_ms"].get("compile"), row["times_ms"].get(ours)]
        factor = statistics.median(pair[0]) / statistics.median(pair[1]) if all(pair) else None
        lines.append(f"| {row['name']} | " + " | ".join(cells) + (f" | {factor:.1f} |" if factor else " | – |"))
        summary.append({"name": row["name"], "ours": ours, "compile_over_ours": factor})
    for row in results["models"]:
        lines += [f"- {row['name']}, {TITLES[name]}: {reason}" for name, reason in row.get("absent", {}).items()]
    return "\n".join(lines) + "\n", summary


if __name__ == "__main__":
    with open(sys.argv[1]) as file:
        saved = json.load(file)
    print((startup_table if saved["models"] and "first_ms" in saved["models"][0] else full_table)(saved)[0])
