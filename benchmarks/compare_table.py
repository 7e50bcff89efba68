"""The tables of compare.py: ratios with their 95 % intervals, geometric means, rows lost. Pure functions.

  compare_table.py results.json […]   prints the table of a finished run again; of several files the rows together, where
                                       a model is in more than one as the last of them has it
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
LEAST_ROUNDS = 6  # fewer give no interval of 95 %


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
    """A peer's figure that was taken without its error counts: nothing may be won because a page does not tell it."""
    check = row["checks"].get(runtime)
    if check is None:
        return is_taken(row, runtime)
    coarse = lossy(runtime) or row.get("dtype") == "bfloat16"
    return least_cosine(check) >= LEAST_COSINE if coarse else check["error"] <= MOST_ERROR


def least_cosine(check):
    """As it was computed; of a check that has the error alone, the least that this error allows."""
    return check["cosine"] if "cosine" in check else math.sqrt(max(0.0, 1 - check["error"] ** 2))


def times_of(row, runtime):
    for group in row["rounds"]:
        if runtime in group:
            return group[runtime]
    return None


def median_of(row, runtime):
    """Of this run, or of the earlier one that the figure was taken from; None when there is none."""
    times = times_of(row, runtime)
    return statistics.median(times) if times is not None else row.get("taken", {}).get(runtime, {}).get("median_ms")


def is_taken(row, runtime):
    return times_of(row, runtime) is None and runtime in row.get("taken", {})


def ratio(row, base, runtime):
    """(median, low, high) of base's time over runtime's, paired by round; None when one is missing.

    Without low and high when one of them was taken from an earlier run: then it is that of the medians.
    """
    if is_taken(row, base) or is_taken(row, runtime):
        first, second = median_of(row, base), median_of(row, runtime)
        return None if first is None or second is None else (first / second, None, None)
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
    medians = {name: median_of(row, name) for name in runtimes
               if median_of(row, name) is not None and is_right(row, name)}
    return min(medians, key=medians.get) if medians else None


def geometric_mean(values):
    return math.exp(sum(math.log(value) for value in values) / len(values)) if values else None


def format_ratio(value):
    if value is None:
        return "–"
    return f"{value[0]:.2f}*" if value[1] is None else f"{value[0]:.2f} ({value[1]:.2f}–{value[2]:.2f})"


def runtimes_of(rows):
    found = {name for row in rows for group in [*row["rounds"], row.get("taken", {})] for name in group}
    return [name for name in TITLES if name in found]


def time_table(rows, runtimes):
    lines = ["| model | " + " | ".join(f"{TITLES[name]}, ms" for name in runtimes) + " |", "|" + "---|" * (len(runtimes) + 1)]
    for row in rows:
        cells = []
        for name in runtimes:
            median = median_of(row, name)
            text = "–" if median is None else f"{median:.2f}{'*' if is_taken(row, name) else ''}"
            cells.append(text if median is None or is_right(row, name) else text + " (wrong)")
        lines.append(f"| {row['name']} | " + " | ".join(cells) + " |")
    return lines


def best_peer(rows):
    return "best fp32 peer" if all(row.get("dtype", "float32") == "float32" for row in rows) else "best peer"


def ratio_table(rows, runtimes):
    compared = [name for name in runtimes if name != "eager"]
    lines = ["| model | " + " | ".join(TITLES[name] for name in compared) + f" | {best_peer(rows)} |",
             "|" + "---|" * (len(compared) + 2)]
    for row in rows:
        best = best_of(row, FP32_PEERS)
        cells = [format_ratio(ratio(row, "eager", name)) if is_right(row, name) else "–" for name in compared]
        lines.append(f"| {row['name']} | " + " | ".join(cells) + f" | {TITLES.get(best, '–')} |")
    means = []
    for name in compared:
        values = [ratio(row, "eager", name)[0] for row in rows if is_right(row, name) and ratio(row, "eager", name)]
        mark = "*" if any(is_taken(row, name) for row in rows) else ""
        means.append(f"{geometric_mean(values):.2f}{mark} ({len(values)} of {len(rows)})" if values else "–")
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


def ratio_to_best(row, peers, runtime):
    """(ratio, the best of `peers`), or (None, why there is none)."""
    if "failed" in row:
        return None, "failed"
    if median_of(row, runtime) is None:
        return None, "not measured"
    if not is_right(row, runtime):
        return None, "wrong"
    best = best_of(row, peers)
    found = None if best is None else ratio(row, best, runtime)
    return (found, best) if found else (None, "no peer is right")


def judge(rows, runtime, peers, chosen=lambda row: True):
    """Geometric mean of a runtime's ratio to the best of `peers`, and the rows lost: those whose interval lies below 1,
    and those without a ratio, which stand under "missing" too."""
    values, lost, missing = [], [], []
    for row in filter(chosen, rows):
        found, word = ratio_to_best(row, peers, runtime)
        if found is None:
            missing.append(f"{row['name']} – ({word})")
            continue
        values.append(found[0])
        if (found[0] if found[2] is None else found[2]) < 1:
            lost.append(f"{row['name']} {format_ratio(found)} against {TITLES[word]}")
    return {"mean": geometric_mean(values), "models": len(values), "rows": len(values) + len(missing),
            "lost": lost + missing, "missing": missing}


def takes_part(rows, runtime):
    """Whether a run asked for it: some row has a time of it, or says why there is none."""
    return any(median_of(row, runtime) is not None or runtime in row["absent"] for row in rows if "failed" not in row)


def convolutional(row):
    if "architecture" not in row:  # failed: names begin with it
        return row["name"].startswith(CONVOLUTIONAL)
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


# On a GPU: balanced against the best peer, one sequence or image against eager, and the first answer from an artifact.
GPU_LEAST_MEAN = 1.2
GPU_LEAST_ROW = 0.97
GPU_LEAST_OVER_EAGER = 4.0
GPU_MOST_START_S = 2.0
GPU_COMPARISONS = (
    ("ours_plain", ("eager",), "eager", None, None),
    ("ours_conservative", ("eager",), "eager", None, None),
    ("ours_balanced", ("eager",), "eager", None, None),
    ("ours_balanced", FP32_PEERS, "the best peer", GPU_LEAST_MEAN, None),
    ("ours_aggressive", FP32_PEERS, "the best peer", None, None),
)


def check_goal(rows, peers, least, words):
    """A line and its summary. Rows without a ratio miss the goal."""
    values = [(row["name"], *ratio_to_best(row, peers, "ours_balanced")) for row in rows]
    below = [f"{name} {format_ratio(value)}" + ("" if value else f" ({word})") for name, value, word in values
             if value is None or value[0] < least]
    verdict = "no row" if not values else "met" if not below else "missed"
    return (f"- goal: {words} at least {least:g}: {verdict} ({len(values) - len(below)} of {len(values)} rows)"
            + "".join(f"; {text}" for text in below),
            {"goal": words, "least": least, "rows": len(values), "below": below})


def gpu_goals(rows):
    """Lines and summaries of the goals that hold for single rows."""
    single = [row for row in rows if row.get("batch") == 1 or ("failed" in row and row.get("batch") is None)]
    return [check_goal(rows, FP32_PEERS, GPU_LEAST_ROW, "ours, balanced against the best peer, each row"),
            check_goal(single, ("eager",), GPU_LEAST_OVER_EAGER, "ours, balanced against eager, each row of batch 1")]


def goal_lines(rows, on_gpu):
    """Lines and summaries of all comparisons, over the rows that failed too."""
    lines, summary = [], []
    for runtime, peers, words, goal, chosen in GPU_COMPARISONS if on_gpu else GOALS:
        verdict = judge(rows, runtime, peers, chosen or (lambda row: True))
        if verdict["rows"] == 0 or not takes_part(rows, runtime):
            continue
        wanted = "" if goal is None else f" (goal {goal:g})"
        mean = "–" if verdict["mean"] is None else f"{verdict['mean']:.2f}"
        lines.append(f"- {TITLES[runtime]} against {words}: geometric mean {mean}{wanted} over {verdict['models']} of "
                     f"{verdict['rows']} models, rows lost: {len(verdict['lost'])}"
                     + "".join(f"; {text}" for text in verdict["lost"]))
        summary.append({"runtime": runtime, "against": words, "goal": goal, **verdict})
    for line, found in gpu_goals(rows) if on_gpu and takes_part(rows, "ours_balanced") else ():
        lines.append(line)
        summary.append(found)
    return lines, summary


def describe_gpu(gpu):
    return (f"{gpu['name']}, driver {gpu['driver']}, {gpu['sm_mhz']} MHz of {gpu['most_sm_mhz']}, memory "
            f"{gpu['memory_mhz']} MHz, {gpu['celsius']} °C, {gpu['watt']} W of {gpu['most_watt']}")


def machine_lines(results):
    machine = results["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items() if version)
    lines = [f"{machine['cpu']}, {machine['threads']} threads, {versions}, {machine['date']}, {machine['rounds']} rounds, "
             f"load average at the start {machine['load_average']:.2f}"]
    if machine.get("gpu"):
        lines += ["", f"{describe_gpu(machine['gpu'])} before the first row."]
        after = [row for row in results["models"] if row.get("gpu")]
        if after:
            lines[-1] += (" Behind the rounds of each: "
                          + ", ".join(f"{row['name']} {row['gpu']['sm_mhz']} MHz, {row['gpu']['celsius']} °C"
                                      for row in after))
    if machine.get("optimize"):
        lines += ["", f"kpt optimize was given {machine['optimize']}."]
    return lines + [""]


def start_table(rows, runtimes, together):
    """From the start of a process to its first answer, as it happened on the way to the measurement."""
    lines = ["Seconds from the start of the process to its first answer, once each"
             + (", while the others of the row started too" if together else "")
             + "; compilers fill their caches here, unless they were filled:", "",
             "| model | " + " | ".join(TITLES[name] for name in runtimes) + " | AOTInductor, package loaded again |",
             "|" + "---|" * (len(runtimes) + 2)]
    for row in rows:
        seconds = [row.get("first_answer_s", {}).get(name) for name in runtimes]
        package = row.get("package", {}).get("package_load_seconds")
        cells = ["–" if value is None else f"{value:.1f}" for value in [*seconds, package]]
        lines.append(f"| {row['name']} | " + " | ".join(cells) + " |")
    return lines


def full_table(results):
    """Markdown and the summary for results.json."""
    rows = [row for row in results["models"] if "failed" not in row]
    failed = [f"{row['name']}: {row['failed']}" for row in results["models"] if "failed" in row]
    machine = results["machine"]
    on_gpu = machine.get("device", "cpu") != "cpu"
    lines = machine_lines(results)
    if not rows:
        return "\n".join(lines + failed) + "\n", {}
    runtimes = runtimes_of(rows)
    lines += ["Medians:", "", *time_table(rows, runtimes), "", "Eager's time over the runtime's (above 1: faster than eager), "
              "paired by round, with the 95 % interval of the median:", "", *ratio_table(rows, runtimes), "",
              "Largest error of an output against fp64, relative to its root mean square:", "", *error_table(rows, runtimes), ""]
    sources = sorted({taken["source"] for row in rows for taken in row.get("taken", {}).values()})
    if sources:
        lines += [f"\\* not measured in this run but taken from {', '.join(sources)} (same GPU, driver, torch, triton and "
                  "transformers); a ratio with it is that of the medians of two runs, not paired, and has no interval.", ""]
    if on_gpu and any(row.get("first_answer_s") for row in rows):
        lines += [*start_table(rows, runtimes, machine.get("start_together")), ""]
    goals, summary = goal_lines(results["models"], on_gpu)
    lines += goals
    absent = [f"- {row['name']}, {TITLES[name]}: {reason}" for row in rows for name, reason in row["absent"].items()]
    if absent or failed:
        lines += ["", "Not measured:", "", *absent, *[f"- {text}" for text in failed]]
    return "\n".join(lines) + "\n", summary


def startup_table(results):
    machine = results["machine"]
    on_gpu = machine.get("device", "cpu") != "cpu"
    starts = [len(times) for row in results["models"] for times in row.get("times_ms", {}).values()]
    interval = "95 % interval" if min(starts, default=0) >= LEAST_ROUNDS else "least and most"
    lines = [f"Process start to first answer, ms: median of the later starts ({interval}; first start of all). "
             f"{machine['cpu']}, {machine['threads']} threads", ""]
    if machine.get("gpu"):
        lines[1:1] = ["", describe_gpu(machine["gpu"])]
    found = {name for row in results["models"] for name in row.get("times_ms", {})}
    names = [name for name in TITLES if name in found or name in ("eager", "compile", "ours_plain", "ours_balanced")]
    lines += ["| model | " + " | ".join(TITLES[name] for name in names) + " | torch.compile over ours |",
              "|" + "---|" * (len(names) + 2)]
    summary, late = [], []
    for row in results["models"]:
        if "failed" in row:
            lines.append(f"| {row['name']} | {row['failed']} |" + " |" * len(names))
            late.append(f"{row['name']} – (failed)")
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
        seconds = statistics.median(pair[1]) / 1e3 if pair[1] else None
        summary.append({"name": row["name"], "ours": ours, "compile_over_ours": factor, "ours_s": seconds})
        if ours == "ours_plain":
            late.append(f"{row['name']} – (not measured)")
        elif seconds > GPU_MOST_START_S:
            late.append(f"{row['name']} {seconds:.2f} s")
    count = len(results["models"])
    if on_gpu and count:
        lines += ["", f"- goal: ours, balanced, at most {GPU_MOST_START_S:g} s: {'missed' if late else 'met'} "
                  f"({count - len(late)} of {count} rows)" + "".join(f"; {text}" for text in late)]
    for row in results["models"]:
        lines += [f"- {row['name']}, {TITLES[name]}: {reason}" for name, reason in row.get("absent", {}).items()]
    return "\n".join(lines) + "\n", summary


def join_results(files):
    """One result of several: the machine of the last, each model as the last that holds it."""
    models = {}
    for results in files:
        models.update({row["name"]: row for row in results["models"]})
    return {"machine": files[-1]["machine"], "models": list(models.values())}


def main(paths):
    files = []
    for path in paths:
        with open(path) as file:
            files.append(json.load(file))
    saved = join_results(files)
    starts = any("first_ms" in row for row in saved["models"])
    print((startup_table if starts else full_table)(saved)[0])


if __name__ == "__main__":
    main(sys.argv[1:])
