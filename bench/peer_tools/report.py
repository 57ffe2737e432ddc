"""What was measured, as lines for the terminal and as a page. The figures are those that bench/peers.py --json
writes."""
import math

TITLES = {"onnxruntime": "ONNX Runtime", "openvino": "OpenVINO", "torch": "PyTorch", "mnn": "MNN", "ncnn": "ncnn"}
PRECISIONS = {
    "f32": "float32", "bf16": "bf16 (asked for explicitly; models are float32)",
    "int8": "int8 (static QDQ, u8 activations, i8 weights by channel)"
}


def milliseconds(value):
    return f"{value:.3f}" if value < 1 else f"{value:.2f}" if value < 100 else f"{value:.0f}"


def trouble(side):
    """("fails" or "skipped", why) of a side that was not measured, or None."""
    if "failure" in side:
        return "fails", side["failure"]
    return ("skipped", side["skipped"]) if "skipped" in side else None


def terminal_head(peers):
    return f"{'model':<26} {'batch':>5} {'type':>5} {'threads':>7} {'tessera ms':>11}" + "".join(
        f" {peer + ' ms (ratio)':>26}" for peer in peers)


def terminal_row(cell, peers):
    own = cell["tessera"]
    row = f"{cell['model']:<26} {cell['batch']:>5} {cell['precision']:>5} {cell['threads'] or '-':>7} "
    row += f"{trouble(own)[0] if trouble(own) else milliseconds(own['median_ms']):>11}"
    notes = [f"tessera: {trouble(own)[1]}"] if trouble(own) else []
    for peer in peers:
        found = cell["peers"].get(peer, {"skipped": "not run"})
        row += f" {terminal_cell(found):>26}"
        if trouble(found) or found.get("remark"):
            notes.append(f"{peer}: {trouble(found)[1] if trouble(found) else found['remark']}")
    return "\n".join([row, *[f"    {note}" for note in notes]])


def terminal_cell(found):
    if trouble(found):
        return trouble(found)[0]
    ratio = f"{found['ratio']:.2f}" if found["ratio"] is not None else "-"
    return f"{milliseconds(found['median_ms'])} ({ratio})" + ("!" if found["remark"] else "")


def summary(cells, peer):
    """(geometric mean of the ratios, how many they are, how many are above 1, how many cells the peer failed), or None
    where nothing was measured."""
    found = [cell["peers"][peer] for cell in cells if peer in cell["peers"]]
    ratios = [entry["ratio"] for entry in found if entry.get("ratio")]
    if not ratios:
        return None
    mean = math.exp(sum(math.log(ratio) for ratio in ratios) / len(ratios))
    return mean, len(ratios), sum(ratio > 1 for ratio in ratios), sum("failure" in entry for entry in found)


def terminal_summary(cells, peers):
    lines = []
    for precision in dict.fromkeys(cell["precision"] for cell in cells):
        for peer in peers:
            found = summary([cell for cell in cells if cell["precision"] == precision], peer)
            if found:
                lines.append(
                    f"{precision} {peer}: geometric mean of {found[1]} ratios {found[0]:.2f}, Tessera faster in "
                    f"{found[2]}, {peer} fails {found[3]}"
                )
    return "\n".join(lines)


class Notes:
    """Numbered remarks below a table; the same text has one number."""

    def __init__(self):
        self.texts = []

    def mark(self, text):
        text = text.replace("|", "\\|").replace("\n", " ")
        if text not in self.texts:
            self.texts.append(text)
        return f" [{self.texts.index(text) + 1}]"

    def lines(self):
        return [f"{number}. {text}" for number, text in enumerate(self.texts, 1)]


def own_cell(cell, notes, show):
    own = cell["tessera"]
    return trouble(own)[0] + notes.mark(f"Tessera: {trouble(own)[1]}") if trouble(own) else show(own)


def peer_cell(cell, peer, notes, show):
    found = cell["peers"].get(peer)
    if found is None:
        return "skipped"
    if trouble(found):
        return trouble(found)[0] + notes.mark(f"{TITLES[peer]}: {trouble(found)[1]}")
    return show(found) + (notes.mark(f"{TITLES[peer]}: {found['remark']}") if found["remark"] else "")


def with_ratio(found):
    if found["ratio"] is None:
        return milliseconds(found["median_ms"])
    ratio = f"{found['ratio']:.2f}"
    return f"{milliseconds(found['median_ms'])} (**{ratio}**)" if found[
        "ratio"] > 1 else f"{milliseconds(found['median_ms'])} ({ratio})"


def starting(found):
    load = f"{milliseconds(found['load_ms'])} + " if "load_ms" in found else "? + "
    memory = f"{found['peak_rss_bytes'] / 2**20:.0f}"
    if "imported_rss_bytes" in found:
        memory += f" ({(found['peak_rss_bytes'] - found['imported_rss_bytes']) / 2**20:.0f})"
    return f"{load}{milliseconds(found['first_ms'])}, {memory}"


def table(cells, peers, notes, show_own, show_peer):
    lines = [
        f"| model | batch | threads | Tessera | {' | '.join(TITLES[peer] for peer in peers)} |",
        f"|---|---|---|---|{'---|' * len(peers)}"
    ]
    for cell in cells:
        row = [cell["model"], str(cell["batch"]), str(cell["threads"] or "–"), own_cell(cell, notes, show_own)]
        lines.append(f"| {' | '.join(row + [peer_cell(cell, peer, notes, show_peer) for peer in peers])} |")
    return lines


def shares(cells, peers):
    """Of single layers: how much of what the machine's multiply-adds can do at most they used."""
    found = [cell for cell in cells if "share_of_peak" in cell and not trouble(cell["tessera"])]
    if not found:
        return []

    def percent(cell, peer):
        other = cell["peers"].get(peer, {})
        return f"{100 * cell['share_of_peak'] / other['ratio']:.0f}" if other.get("ratio") else "–"

    lines = [
        "", "### Single layers: share of the machine's arithmetic", "",
        "Operations of the direct computation (padding counts) in the median time, in percent of what a loop of "
        "nothing but multiply-adds did at that moment",
        "(`bench_roof --compute`). Winograd does fewer, and may pass 100.", "",
        f"| layer | batch | threads | Tessera | {' | '.join(TITLES[peer] for peer in peers)} |",
        f"|---|---|---|---|{'---|' * len(peers)}"
    ]
    for cell in found:
        row = [cell["model"], str(cell["batch"]), str(cell["threads"]), f"**{100 * cell['share_of_peak']:.0f}**"]
        lines.append(f"| {' | '.join(row + [percent(cell, peer) for peer in peers])} |")
    return lines


def means(cells, peers):
    lines = []
    for peer in peers:
        found = summary(cells, peer)
        if found:
            mean, count, faster, failed = found
            lines.append(
                f"- {TITLES[peer]}: geometric mean of the ratios {mean:.2f}; Tessera is faster in {faster} of {count} "
                f"cells; {TITLES[peer]} fails {failed} more"
            )
    return lines


def readme_table(figures):
    """Lines of the README's table: a model a row, a peer a column, its time / Tessera's at the least batch and the most
    threads that were measured."""
    versions, cells = figures["versions"], figures["cells"]
    peers = [peer for peer in TITLES if peer in versions]
    threads, batch = max(cell["threads"] or 1 for cell in cells), {}
    for cell in cells:
        batch[cell["model"]] = min(cell["batch"], batch.get(cell["model"], cell["batch"]))
    chosen = [
        cell for cell in cells
        if (cell["threads"] or 1) == threads and cell["batch"] == batch[cell["model"]] and not trouble(cell["tessera"])
    ]

    def show(found):
        if trouble(found):
            return trouble(found)[0]
        return f"**{found['ratio']:.2f}**" if found["ratio"] > 1 else f"{found['ratio']:.2f}"

    against = ", ".join(f"{TITLES[peer]} {versions[peer]}" for peer in peers)
    lines = [
        f"Measured on {figures['date'][:10]} by `bench/peers.py` on {figures['machine']}, with {threads} threads, "
        f"against",
        f"{against}. A number is the other program's median time divided by Tessera's: above 1 (bold), Tessera is "
        f"faster.",
        "", f"| model | type | Tessera, ms | {' | '.join(TITLES[peer] for peer in peers)} |",
        f"|---|---|---|{'---|' * len(peers)}"
    ]
    for cell in chosen:
        others = [show(cell["peers"].get(peer, {"skipped": "not run"})) for peer in peers]
        lines.append(
            f"| {' | '.join([cell['model'], cell['precision'], milliseconds(cell['tessera']['median_ms']), *others])} |"
        )
    found = [summary(chosen, peer) for peer in peers]
    lines.append(f"| geometric mean | | | {' | '.join(f'**{entry[0]:.2f}**' if entry else '–' for entry in found)} |")
    return lines


def markdown(figures):
    versions, settings = figures["versions"], figures["settings"]
    peers = [peer for peer in TITLES if peer in versions]
    with_versions = ", ".join(f"{TITLES[peer]} {versions[peer]}" for peer in peers)
    lines = [
        "# Performance",
        "",
        "Written by `bench/peers.py --render`; do not edit. `bench/peers.py --help` says how to measure it again.",
        "",
        f"Measured {figures['date'][:10]} on {figures['machine']}, {figures['memory_gib']} GiB, {figures['system']}",
        f"(load average {figures['load_average_at_start']:.2f} when it began): Tessera {versions['tessera']} against "
        f"{with_versions}.",
        "",
        f"For each peer, Tessera and the peer ran in turn, rounds: {settings['rounds']}, each time in a fresh process "
        f"on the same cores, on the same model file with",
        f"fixed shapes and the same inputs; after warm-up, the median of {settings['seconds']:g} s of runs. **Ratio** "
        f"(in brackets) = the peer's time / Tessera's, the",
        "median of the rounds: above 1 (bold) Tessera is faster. Times are in milliseconds.",
        "",
        "ONNX Runtime: all graph optimisations, IO binding (plain runs where outputs are no tensors). OpenVINO: "
        "latency hint, precision hint always set (float32 unless",
        f"said otherwise), no rounding of data to bytes that the model does not ask for, static shapes. PyTorch: "
        f"torchvision's modules with the same weights, channels-last, inference mode, {settings['torch']}; nets that",
        "torchvision does not have are not run. MNN: its session, which needs its inputs anew each run; models by its "
        "converter. ncnn: models by pnnx, batch 1. Outputs of every peer were compared",
        "with Tessera's; where they differ by more than 1e-3 of their norm (5e-2 for bf16 and int8) the cell says so.",
    ]
    for precision in dict.fromkeys(cell["precision"] for cell in figures["cells"]):
        chosen = [cell for cell in figures["cells"] if cell["precision"] == precision]
        notes = Notes()
        body = table(chosen, peers, notes, lambda own: milliseconds(own["median_ms"]), with_ratio)
        lines += ["", f"## {PRECISIONS[precision]}", "", *means(chosen, peers), "", *body]
        lines += ["", *notes.lines()] if notes.texts else []
        lines += shares(chosen, peers)
        starts = Notes()
        body = table(chosen, peers, starts, starting, starting)
        lines += [
            "", f"### Starting and memory, {precision}", "",
            "Load + first run in ms (PyTorch's modules are built by code: no load time), peak resident MiB; for "
            "programs that run in Python, in brackets, how much of",
            "the peak came after their imports.", "", *body
        ]
    return "\n".join(lines) + "\n"
