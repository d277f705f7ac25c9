"""Turns the times that scripts/compare-peers keeps into Markdown."""
import datetime
import json
import math
import pathlib
import subprocess

import page
from cases import FAMILIES

OURS = "convgrad"
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
    families = list(rows(entries, lambda e: e["family"], [name for name, _ in FAMILIES]))
    kinds = list(rows(entries, lambda e: "all " + e["family"].split()[0].strip(","),
                      ["all depthwise", "all conv2d"]))
    return head + families + kinds


def changes(entries, baseline):
    """By family: how many times the ratio to the best peer is the baseline's, in the geometric mean,
    and of how many cases."""
    before = {key(entry): ratio(entry) for entry in baseline if best_peer(entry)}
    by_family = {}
    for entry in entries:
        if key(entry) in before and best_peer(entry):
            by_family.setdefault(entry["family"], []).append(ratio(entry) / before[key(entry)])
    return {name: (geometric_mean(values), len(values)) for name, values in by_family.items()}


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


def commit():
    done = subprocess.run(["git", "describe", "--always", "--dirty"], text=True,
                          capture_output=True, cwd=pathlib.Path(__file__).parent)
    return done.stdout.strip() or "unknown"


def names(entries):
    """The peers, each with the number of cases that it could not do; who could do none is named as
    such, since nothing was compared with it."""
    def words(name):
        all_times = [entry["times"][name] for entry in entries if name in entry["times"]]
        refusals = [times["refused"] for times in all_times if "median" not in times]
        if len(refusals) == len(all_times):
            return f"without {name}, which could do nothing ({refusals[0]})"
        return name + (f" (all but {len(refusals)} cases)" if refusals else "")
    every = {name for entry in entries for name in entry["times"] if name != OURS}
    return sorted(map(words, every), key=lambda text: (text.startswith("without"), text))


def summary(entries):
    """The families without passes and layouts: how many cases, and how many of them are lost."""
    lines = ["| family | cases | geometric mean | below 0.95 | below 0.85 | least |",
             "|---" * 6 + "|"]
    groups = [name for name, _ in FAMILIES] + ["all"]
    for name in groups:
        ratios = [ratio(e) for e in entries if name in (e["family"], "all") and best_peer(e)]
        if ratios:
            lines.append(f"| {name} | {len(ratios)} | {geometric_mean(ratios):.2f} | "
                         f"{sum(r < 0.95 for r in ratios)} | {sum(r < 0.85 for r in ratios)} | "
                         f"{min(ratios):.2f} |")
    return lines


def section(dtype, threads, isa, entries):
    title = f"{dtype}, threads: {threads}" + (f", {isa}" if isa else "")
    parts = [f"### {title}", "",
             "How many times as fast convgrad is as the best peer: geometric mean (least) over the "
             "workloads, and the peer that is most often the best.", "",
             *summary(entries), "", *family_table(entries), "", *losses(entries), "",
             "<details><summary>All cases</summary>", "",
             *HEAD, *(line(entry) for entry in entries), "", "</details>", ""]
    return parts


def by_setting(entries):
    """Pairs of (type, threads, instruction set) and its entries."""
    def setting(entry):
        return entry["dtype"], entry["threads"], entry["isa"]
    return [(wanted, [e for e in entries if setting(e) == wanted])
            for wanted in dict.fromkeys(setting(e) for e in entries)]


def origin():
    """Where and of what an entry is measured now."""
    return {"processor": processor(), "date": str(datetime.date.today()), "commit": commit()}


def heading(entries):
    here = origin()  # for results of before entries said it themselves

    def all_of(name):
        return ", ".join(sorted({entry.get(name, here[name]) for entry in entries}))

    return (f"{all_of('processor')}, {all_of('date')}, commit {all_of('commit')}; medians. "
            f"Peers: {'; '.join(names(entries))}.")


def markdown(entries):
    if not entries:
        return "Nothing was measured."
    parts = [heading(entries), ""]
    for setting, members in by_setting(entries):
        parts += section(*setting, members)
    return "\n".join(parts)


def write_into(path, mark, entries):
    """Puts machine, date, commit and the tables by family between two lines of the page."""
    parts = [heading(entries), ""]
    for (dtype, threads, isa), members in by_setting(entries):
        setting = f"{dtype}, threads: {threads}" + (f", {isa}" if isa else "")
        parts += [f"### Peers: {setting}", "", *summary(members), "", *family_table(members), ""]
    page.write_between(path, mark, "\n".join(parts))
