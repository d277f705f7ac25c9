"""Turns the times that scripts/compare-peers keeps into Markdown."""
import datetime
import json
import math
import pathlib
import re

OURS = "convgrad"
# By name of the workload; the first that matches.
FAMILIES = (
    ("depthwise, multiplier", r"^dw3m"),
    ("depthwise, dilated", r"^dw3d"),
    ("depthwise 3x3", r"^dw3_"),
    ("depthwise 3x3, stride 2", r"^dw3s2"),
    ("depthwise 5x5", r"^dw5_"),
    ("depthwise 5x5, stride 2", r"^dw5s2"),
    ("depthwise 7x7", r"^dw7"),
    ("depthwise 31x31", r"^dw31"),
    ("conv2d 1x1", r"_1x1"),
    ("conv2d few or odd channels", r"^odd|^mnist"),
    ("conv2d stem, stride 2, dilated", r"7x7s2|3x3s2|3x3d"),
    ("conv2d 3x3, 1x7, 7x1", r""),
)
HEAD = ["| workload | pass | layout | type | ms | algorithm | best peer, ms | who | ratio |",
        "|---" * 9 + "|"]
COLUMNS = [(direction, layout) for direction in ("filter", "input", "forward")
           for layout in ("NHWC", "NCHW")]


def read(path):
    """The last entry of every case."""
    if not path.exists():
        return []
    entries = [json.loads(line) for line in path.read_text().splitlines()]
    return list({key(entry): entry for entry in entries}.values())


def key(entry):
    return tuple(entry[name] for name in ("workload", "pass", "layout", "dtype", "threads", "isa"))


def best_peer(entry):
    """Name and times of the fastest peer, or None."""
    peers = [(name, times) for name, times in entry["times"].items()
             if name != OURS and "median" in times]
    return min(peers, key=lambda peer: peer[1]["median"], default=None)


def ratio(entry):
    """How many times as fast convgrad is as the best peer."""
    return best_peer(entry)[1]["median"] / entry["times"][OURS]["median"]


def label(name, times):
    how = times["how"]
    return f"{name} ({how})" if how else name


def line(entry):
    ours = entry["times"][OURS]
    words = f"{entry['workload']} | {entry['pass']} | {entry['layout']} | {entry['dtype']}"
    words += f" | {ours['median']:.3f} | {ours['how']}"
    peer = best_peer(entry)
    if peer is None:
        return f"| {words} | none | | |"
    return f"| {words} | {peer[1]['median']:.3f} | {label(*peer)} | {ratio(entry):.2f} |"


def geometric_mean(values):
    return math.exp(sum(math.log(value) for value in values) / len(values))


def family(workload):
    return next(name for name, pattern in FAMILIES if re.search(pattern, workload))


def short(name):
    """"TF oneDNN" for the table by family."""
    library, _, kernels = name.partition(",")
    library = library.split()[0]
    if library == "TensorFlow":
        return "TF" + kernels.replace("own kernels", "own")
    return library


def cell(entries):
    """Geometric mean (least) of the ratios, and who is most often the best peer."""
    entries = [entry for entry in entries if best_peer(entry)]
    if not entries:
        return "no peer"
    ratios = [ratio(entry) for entry in entries]
    names = [short(best_peer(entry)[0]) for entry in entries]
    return (f"{geometric_mean(ratios):.2f} ({min(ratios):.2f}) "
            f"{max(sorted(set(names)), key=names.count)}")


def rows(entries, group_of, groups):
    for group in groups:
        members = [entry for entry in entries if group_of(entry) == group]
        if not members:
            continue
        cells = [cell([e for e in members if (e["pass"], e["layout"]) == column])
                 if any((e["pass"], e["layout"]) == column for e in members) else ""
                 for column in COLUMNS]
        yield f"| {group} | " + " | ".join(cells) + " |"


def family_table(entries):
    head = ["| | " + " | ".join(f"{direction} {layout}" for direction, layout in COLUMNS) + " |",
            "|---" * (len(COLUMNS) + 1) + "|"]
    families = list(rows(entries, lambda e: family(e["workload"]), [name for name, _ in FAMILIES]))
    kinds = list(rows(entries, lambda e: "all " + family(e["workload"]).split()[0].strip(","),
                      ["all depthwise", "all conv2d"]))
    return head + families + kinds


def losses(entries):
    lost = sorted((e for e in entries if best_peer(e) and ratio(e) < 1), key=ratio)
    compared = sum(best_peer(entry) is not None for entry in entries)
    parts = [f"A peer wins {len(lost)} of {compared} cases" + (":" if lost else "."), ""]
    return parts + HEAD + [line(entry) for entry in lost] if lost else parts


def processor():
    for text in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if text.startswith("model name"):
            return text.partition(":")[2].strip()
    return "unknown processor"


def names(entries):
    return sorted({name for entry in entries for name in entry["times"] if name != OURS})


def section(dtype, threads, isa, entries):
    title = f"{dtype}, threads: {threads}" + (f", {isa}" if isa else "")
    parts = [f"### {title}", "",
             "How many times as fast convgrad is as the best peer: geometric mean (least) over the "
             "workloads, and the peer that is most often the best.", "",
             *family_table(entries), "", *losses(entries), "",
             "<details><summary>All cases</summary>", "",
             *HEAD, *(line(entry) for entry in entries), "", "</details>", ""]
    return parts


def markdown(entries):
    if not entries:
        return "Nothing was measured."
    parts = [f"{processor()}, {datetime.date.today()}; medians. Peers: {'; '.join(names(entries))}.",
             ""]
    settings = {(e["dtype"], e["threads"], e["isa"]): None for e in entries}
    for setting in settings:
        parts += section(*setting, [e for e in entries
                                    if (e["dtype"], e["threads"], e["isa"]) == setting])
    return "\n".join(parts)
