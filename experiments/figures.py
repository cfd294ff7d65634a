"""Reports and tables of figures on pages, of committed rows and outputs: `make figures`.

    python experiments/figures.py            # writes the reports, their page, and the tables
    python experiments/figures.py --check    # says which pages are not as their sources are

A table stands between `<!-- figures: NAME -->` and `<!-- end of figures -->`, NAME being a function
of this module; nobody writes there by hand.  Figures that no committed row or output holds are
marked as such, and listed at the end.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from math import inf
from pathlib import Path
from statistics import median

import reproduce
from provenance import ROOT
from provenance import main as list_rows
from sources import (
    UNSEEN,
    Figures,
    average,
    cells,
    conditions,
    output,
    peers,
    printed,
    row,
    rows,
    table,
)  # fmt: skip

PAGES = (
    ROOT / "README.md",
    *sorted(ROOT.glob("docs/*/*.md")),
    *sorted(ROOT.glob("experiments/*/README.md")),
)
BLOCK = re.compile(r"(<!-- figures: ([\w-]+) -->\n).*?(<!-- end of figures -->)", re.DOTALL)


MODELS = {"trigram + PLSA": "n-grams + topics", "all three": "n-grams + grammar + topics"}


def how_fast() -> list[str]:
    """The table of the README."""
    found = [*_inference(), *_crfs(), *_taggers(), *_fields(), *_language_models()]
    header = ("job", "mrflearn", "other program or method", "measured on")
    return table(header, [(own.job, own.ours, own.rival, own.conditions) for own in found])


def _inference() -> Iterator[Figures]:
    source = [output("inference")]
    own = cells("inference", problem="exact, 16x16, graph and all")
    yield Figures(
        "log Z and all marginals, 16 x 16 Ising grid, exact, the graph included",
        f"{float(own['mrflearn s']):.2f} s",
        f"pyAgrum: {own['rival s']} s",
        source,
    )
    large, small = (cells("inference", problem=f"{n}x{n}.*damping 0.0") for n in (50, 10))
    yield Figures(
        "100 sweeps of belief propagation, 50 x 50 grid (10 x 10)",
        f"{large['mrflearn s']} s ({small['mrflearn s']} s)",
        f"PGMax (JAX): {large['rival s']} s ({small['rival s']} s)",
        source,
    )
    yield _uai_networks()
    took, ratio = printed("queries", r"other values .* then ([\d.]+) ms.*: ([\d.]+)x;")
    yield Figures(
        "Pedigree_11, compiled, all marginals given other values of its 37 observed variables",
        f"{took} ms",
        f"asking anew, ours: {ratio} times as long",
        [output("queries")],
    )


def _uai_networks() -> Figures:
    own = [line for line in _lines("inference") if line["problem"].endswith("network and all")]
    done = [line for line in own if line["ratio"] != "-"]
    ours = sorted(float(line["mrflearn s"]) for line in own)
    ratios = [float(line["ratio"].removesuffix("x")) for line in done]
    found = [re.search(r"off by (\S+) from those published", line["remark"]) for line in own]
    apart = [float(match[1]) for match in found if match]
    return Figures(
        f"{len(own)} networks of the UAI competition, exact, the network included",
        f"{ours[0]:.2f} to {ours[-1]:.1f} s, in the middle {median(ours):.2f} s; "
        f"published marginals agree to {max(apart):.0e} (compared on {len(apart)})",
        f"pyAgrum: {len(own) - len(done)} without an answer (60 s, 8 GiB); of the others "
        f"{sum(ratio > 1 for ratio in ratios)} take longer, {min(ratios)} to {max(ratios)} times",
        [output("inference")],
    )


def _crfs() -> Iterator[Figures]:
    yield _to_optimum("chunks", "CoNLL-2000 chunking")
    yield _to_optimum("ewt-xpos", "UD-EWT tags, 49 labels,")
    named = rows("neural_crf", stage="measure", task="names")
    tagged = rows("neural_crf", stage="measure", task="ewt-upos")
    chains = [row("chain_crf", kind="score", task=task) for task in ("names", "ewt-upos")]
    yield Figures(
        "names of CoNLL-2003, F1 on testa / EWT tags, accuracy on test, `NeuralCRF`, three seeds",
        f"{_range(own['f1'] for own in named)} / {_range(own['accuracy'] for own in tagged)} %",
        f"feature CRF, ours: {100 * chains[0]['f1']:.1f} / {100 * chains[1]['accuracy']:.1f} %",
        [{**own, "machine": "H200"} for own in (*named, *tagged)],
        chains,
    )
    yield _chain_layer()
    own = row("piecewise", task="chunks-grmm", estimator="pw")
    grmm = peers("piecewise", "chunks-grmm", estimator="pw")
    yield Figures(
        "factorial CRF of GRMM's setting by piecewise training, one core",
        f"{own['train_cpu_seconds']:.1f} s, F1 {100 * own['chunk_f1']:.1f}",
        f"GRMM: {grmm['train_seconds']} s, F1 {grmm['chunk_f1']}",
        [own],
        [{"where": "such a core, another time"}],
    )
    wanted = {"held_out": False, "c2": 0.05}
    draws = len(rows("piecewise", task="tags-words", estimator="ml", **wanted))
    means = {
        (task, name): _tags(rows("piecewise", task=task, estimator=name, **wanted))
        for task in ("tags-words", "tags")
        for name in ("ml", "pl", "pwpl")
    }
    yield Figures(
        f"tagger of 45 labels with words on transitions, 1,911 sentences, mean of {draws} draws",
        f"PWPL {means['tags-words', 'pwpl']}; PL {means['tags-words', 'pl']}",
        f"exact likelihood, ours: {means['tags-words', 'ml']}; **without words on transitions "
        f"{means['tags', 'ml']}**: on chains like these piecewise training gains nothing",
        rows("piecewise", task="tags-words", **wanted),
    )


def _to_optimum(task: str, text: str) -> Figures:
    """A chain CRF and CRFsuite to the same optimum: in one run, or else at different times."""
    job = f"{text} to CRFsuite's optimum"
    try:
        peer, one, two = (
            cells("crf", task=task, engine=own, iterations=r"[2-9]\d|\d{3}")
            for own in ("suite", "1 core", "2 cores")
        )
    except LookupError:
        own, theirs = row("chain_crf", kind="score", task=task), peers("chain_crf", task)
        ours = f"{own['train_seconds']:.1f} s, features included"
        rival = f"{theirs['system']}: {theirs['train_seconds']} s"
        return Figures(job, ours, rival, [own], [{"where": "another machine, another time"}])
    return Figures(
        f"{job}, processor seconds on one core (two cores: of both)",
        f"{one['cpu s']} s ({two['cpu s']} s), score {one['score']}",
        f"python-crfsuite: {peer['cpu s']} s, score {peer['score']}",
        [output("crf")],
    )


def _chain_layer() -> Figures:
    """The longest chains that were measured."""
    mine = [own for own in _lines("nn") if own["job"].startswith("chain") and "ms" in own]
    mine = [own for own in mine if own["engine"] == "mrflearn" and "decode" not in own["job"]]
    job = mine[-1]["job"]
    theirs = cells("nn", job=f"^{job}$", engine="pytorch-crf")
    return Figures(
        f"loss and gradient of a chain CRF layer, {job.removeprefix('chain ')} (sequences, "
        "positions, tags), one core",
        f"{mine[-1]['ms']} ms",
        f"pytorch-crf: {theirs['ms']} ms",
        [output("nn")],
    )


def _taggers() -> Iterator[Figures]:
    one, eight = (cells("composite", work=f"outside, {n} x 20 words") for n in (1, 8))
    yield Figures(
        "inside and outside of one sentence of 20 words, 30 + 60 symbols, one core",
        f"{one['mrflearn ms']} ms (eight at a time: {eight['mrflearn ms']})",
        f"torch-struct: {one['peer ms']} ms (eight at a time: {eight['peer ms']})",
        [output("composite")],
    )
    tasks = {own["task"] for own in _lines("tagger")}
    ours = [cells("tagger", task=f"^{t}$", engine="HMM, order 2") for t in sorted(tasks)]
    theirs = [cells("tagger", task=f"^{t}$", engine="TnT") for t in sorted(tasks)]
    yield Figures(
        f"tagging with a trigram HMM, one core, tokens/s ({', '.join(sorted(tasks))})",
        "; ".join(own["tokens/s"] for own in ours),
        f"NLTK's TnT: {'; '.join(own['tokens/s'] for own in theirs)}",
        [output("tagger")],
    )


def _fields() -> Iterator[Figures]:
    (seconds,) = printed("potts", r"([\d.]+) s of processor")
    (height,) = printed("potts", r"objective ([\d,]+)")
    peer, theirs = printed("potts", r"CCMpred .*?: ([\d.]+) s.*\n +its objective ([\d,]+)")
    shared, of = printed("potts", r"(\d+) of our (\d+) .*the optimum of CCMpred's")
    yield Figures(
        "protein family 1atzA, one thread",
        f"{seconds} s to {height}; {shared} of its {of} strongest contacts are those of the "
        "exact optimum",
        f"CCMpred: {peer} s to {theirs}",
        [output("potts")],
        [{"where": "such a core, another time"}],
    )
    ours, theirs = (_precision(name) for name in ("our scores", "CCMpredPy, with APC"))
    yield Figures(
        "contacts of 1atzA against its structure: precision of the strongest L/5, L/2, L",
        ours,
        f"CCMpredPy: **{theirs}**; CCMpred's exact optimum: {_precision('the optimum')} (L/5, L/2)",
        [output("potts")],
        [{"where": "its stored matrix"}],
    )


def _precision(name: str) -> str:
    """Of the strongest contacts at least 6 columns apart, those that are in the structure."""
    (line,) = printed("potts", rf"precision of {re.escape(name)}.*: (L/10 [^;\n]*)")
    return " / ".join(re.findall(r"L(?:/[52])? ([\d.]+)", line))


def _language_models() -> Iterator[Figures]:
    text = {"text": "Penn Treebank"}
    low = {**text, "part": "figure 6", "vocabulary": None}
    stars, chains = (row("lifted_lm", **low, bound=own) for own in ("stars", "chains"))
    windows = row("lifted_lm", **low, bound="windows")
    apart, tied = (
        row("lifted_lm", **text, part="appendix B", dims=30, tied=own, optimiser="adagrad")
        for own in (False, True)
    )
    three, five = (row("lifted_lm", **text, part="trigrams, rivals", order=n) for n in (3, 5))
    yield Figures(
        "lifted language model, D = 30, Penn Treebank: proven bound on validation, nats a position",
        f"stars {_valid(stars)} in {_seconds(stars)}, chains {_valid(chains)} in "
        f"{_seconds(chains)}, windows {_valid(windows)} in {_seconds(windows)}",
        f"stars, as published: 45 minutes on a GPU; left-context log-bilinear of two tables of "
        f"vectors, exact: {_valid(apart)} (of one table {_valid(tied)}); Kneser-Ney, exact: "
        f"trigram {_valid(three)}, **5-gram {_valid(five)}**",
        [stars, chains, windows],
        [apart, tied, three, five],
    )
    seeds = [own for own in rows("lifted_lm", **text, part="trigrams") if "seed" in own["point"]]
    yield Figures(
        f"trigram field of it (vectors and sparse scores of n-grams to order "
        f"{seeds[0]['point']['order']}), proven, {len(seeds)} seeds",
        f"validation {_figure(seeds, 'valid', 3)}, test {_figure(seeds, 'test', 3)} in "
        f"{min(map(_trained, seeds)):.0f} to {max(map(_trained, seeds)):.0f} s",
        f"Kneser-Ney 5-gram, exact: {_valid(five)}, {five['figures']['test']:.3f} (trigram "
        f"{_valid(three)}, {three['figures']['test']:.3f})",
        seeds,
        [three, five],
        ["the GPU shared with other work"],
    )
    kneser_ney = [f"Kneser-Ney {n}-gram{own}" for own in (", both sides", "") for n in (3, 5)]
    names = ("MRF, chains", *kneser_ney)
    gaps = [row("lifted_lm", **text, part="gaps", name=own) for own in names]
    percent = [f"{_gap(own)} %" for own in gaps]
    field = f"{_figure(seeds, 'first', 1, 100)} / {_figure(seeds, 'among', 1, 100)}"
    yield Figures(
        "words for 20,000 gaps of its validation text, accuracy of the first / of the first ten",
        f"trigram field {field} %; chains {percent[0]}",
        f"Kneser-Ney trigram and 5-gram of both sides: {percent[1]}, {percent[2]}; of the left "
        f"side alone: {percent[3]}, {percent[4]}",
        [*seeds, *gaps[:1]],
        gaps[1:],
    )
    (ours, ours_men), (theirs, theirs_men) = _likeness("20")
    fast = cells("lm", work="word vectors", peer="gensim, 20")
    yield Figures(
        "word vectors of it, D = 30: agreement with human judgements on WS-353 / MEN",
        f"{ours} / {ours_men} in {float(fast['mrflearn s']):.1f} s",
        f"gensim's CBOW, 20 epochs: {theirs} / {theirs_men} in {float(fast['peer s']):.1f} s",
        [output("lm")],
    )
    for text, name in (("Brown", "Brown, 10,000 words"), ("treebank", "treebank sample")):
        learned = [own for own in rows("composite", text=text, beside="cache") if "curve" in own]
        own = min(learned, key=lambda found: found["held_out"])  # type: ignore[no-any-return]
        model = own["point"]["model"]
        rivals = [
            row("composite", text=text, model=f"Kneser-Ney {n}-gram", beside="cache")
            for n in (3, 5)
        ]
        mixed = row(
            "composite", text=text, model=f"interpolation of the sources of {model} + cache"
        )
        yield Figures(
            f"{name}, test perplexity: {MODELS[model]}, cache of the document, causal",
            f"{own['perplexity']:.1f} in {own['seconds']:.0f} s",
            "Kneser-Ney with a cache: trigram "
            f"{rivals[0]['perplexity']:.1f}, 5-gram {rivals[1]['perplexity']:.1f}; best "
            f"interpolation of its sources: {mixed['perplexity']:.1f}",
            [own],
            [*rivals, mixed],
        )
    scored = [_perplexities(order) for order in (2, 3, 5)]
    yield Figures(
        "Penn Treebank test perplexity, Kneser-Ney of order 2 / 3 / 5",
        " / ".join(own for own, _ in scored),
        f"KenLM: {' / '.join(peer for _, peer in scored)}",
        [output("lm")],
    )


def _range(values: Iterator[float]) -> str:
    low, high = (100 * own for own in (lambda found: (min(found), max(found)))(list(values)))
    return f"{low:.1f} to {high:.1f}" if f"{low:.1f}" != f"{high:.1f}" else f"{low:.1f}"


def _tags(found: list[dict[str, float]]) -> str:
    seconds, accuracy = average(found, "train_cpu_seconds"), average(found, "tag_accuracy")
    return f"{seconds:.1f} s, {100 * accuracy:.2f} %"


def _lines(benchmark: str) -> list[dict[str, str]]:
    lines = output(benchmark)["output"]
    names = re.split(r" {2,}", lines[0])
    return [dict(zip(names, re.split(r" {2,}", own), strict=False)) for own in lines[1:]]


def _valid(own: dict[str, dict[str, float]]) -> str:
    return f"{own['figures']['valid']:.3f}"


def _trained(own: dict[str, dict[str, float]]) -> float:
    return own["figures"]["seconds"]


def _seconds(own: dict[str, dict[str, float]]) -> str:
    return f"{_trained(own):.{0 if _trained(own) > 10 else 1}f} s"


def _gap(own: dict[str, dict[str, float]]) -> str:
    return f"{100 * own['figures']['first']:.1f} / {100 * own['figures']['among']:.1f}"


def _figure(
    found: list[dict[str, dict[str, float]]], name: str, digits: int, scale: float = 1.0
) -> str:
    return f"{scale * average([own['figures'] for own in found], name):.{digits}f}"


def _likeness(epochs: str) -> list[tuple[str, str]]:
    """Agreement on WS-353 and MEN: of our vectors, and of gensim's after so many epochs."""
    remark = cells("lm", work="word vectors", peer=f"gensim, {epochs} ")["remark"]
    pairs = re.findall(r"(\.?\d+\.\d+) against (\d+\.\d+)", remark)
    return [tuple(own.lstrip("0") for own in side) for side in zip(*pairs, strict=True)]  # type: ignore[misc]


def _perplexities(order: int) -> tuple[str, str]:
    """Ours, and KenLM's with our model of that order where it was asked."""
    trained = cells("lm", work=f"train {order}-gram", peer="kenlm")["remark"]
    mine = re.findall(r"test perplexity ([\d.]+)", trained)[0]
    try:
        remark = cells("lm", work=f"score test text, {order}")["remark"]
    except LookupError:
        return mine, "-"
    return mine, f"{float(remark.removeprefix('both ').partition(';')[0]):.2f}"


def tables_of_answers() -> list[str]:
    """What each estimator makes of surveys and other tables: seconds, or who takes its place."""
    found: dict[tuple[str, str], dict[str, str]] = {}
    for own in _lines("fields"):
        cells = [_ended(own[kind]) for kind in ("as it is", "5 % blanked")]
        name = f"`{own['estimator']}`"
        found.setdefault((name, own["graph"]), {})[own["table"]] = " / ".join(cells)
    columns = list(dict.fromkeys(own["table"].partition(" (")[0] for own in _lines("fields")))
    lines = [
        (name, {"learn": "learned"}.get(graph, graph), *cells.values())
        for (name, graph), cells in sorted(found.items(), key=lambda own: own[0][1])
    ]
    text = table(("estimator", "graph", *columns), lines)
    return [*text, "", f"Processor seconds, measured on {conditions([output('fields')])}."]


def _ended(cell: str) -> str:
    """How one attempt ended, in short: seconds, and an estimator that took another's place."""
    seconds = re.findall(r"([\d.]+) s", cell)[-1]
    other = re.search(r": (\w+) |by (\w+)", cell)
    place = "" if other is None else f"`{other[1] or other[2]}` "
    return f"{'refused: ' if cell.startswith('refused') else ''}{place}{seconds}"


def crf_estimators() -> list[str]:
    """What each estimator of a CRF costs, and how well it labels."""
    text = (ROOT / "experiments/piecewise/results-guide/guide.md").read_text(encoding="utf-8")
    return text.splitlines()


def word_vectors() -> list[str]:
    """Agreement of vectors with people."""
    lines = [("`WordVectors`", *_likeness("20")[0])]
    lines += [("gensim's CBOW, 20 epochs", *_likeness("20")[1])]
    lines += [("gensim's CBOW, 5 epochs (its default)", *_likeness("5")[1])]
    return table(("", "WS-353, 237 pairs", "MEN, 1,048 pairs"), lines)


def composite_models() -> list[str]:
    """Test perplexities of combinations and rivals on each text."""
    columns = ("built-in", "Brown", "treebank", "plain")
    found: dict[str, dict[str, float]] = {}
    for text in columns:
        for own in rows("composite", text=text):
            beside = own["point"].get("beside")
            name = own["point"]["model"] + f" + {beside}" * bool(beside)
            found.setdefault(name, {})[text] = own["perplexity"]
    best = {text: min(own.get(text, inf) for own in found.values()) for text in columns}
    lines = []
    for name, own in sorted(found.items(), key=lambda one: one[1].get("Brown", inf)):
        shown = [f"{own[text]:.2f}" if text in own else "" for text in columns]
        marks = ["**" * (own.get(text) == best[text]) for text in columns]
        lines.append((name, *(f"{m}{cell}{m}" for m, cell in zip(marks, shown, strict=True))))
    header = ("", "built-in", "Brown", "treebank sample", "60 Brown documents as they are")
    return table(header, lines)


SPARK_OUTPUT = ROOT / "benchmarks/results/spark.json"
SPARK_JOBS = {
    "crf": "`CRF`, 10 iterations",
    "lap": "`MarkovField` by LAP, 100 x 100 grid",
    "count": "trigrams counted",
    "tag": "`TaggerModel.transform`",
    "wide": "`MarkovField` by LAP, 300 x 300 grid",
}


def spark_workers() -> list[str]:
    """Seconds on clusters of one machine and without Spark."""
    if not SPARK_OUTPUT.exists():
        return [f"({UNSEEN}: `make bench-spark`)"]
    lines = []
    for own in _lines("spark"):
        job, speed = SPARK_JOBS[own["job"]], own["speed"]
        figures = own["seconds"], own["worker cpu s"], own["s/evaluation"]
        memory = own["sent/parameters"], own["driver MB"], own["worker MB"]
        faster = speed if speed == "-" else f"{speed}x"
        lines.append((job, own["data"], own["place"], *figures, faster, *memory))
    header = "job", "data", "where", "s", "CPU s of a worker", "s an evaluation", "speed"
    found = table((*header, "sent / parameters", "driver, MB", "worker, MB"), lines)
    return [*found, "", f"Measured on {conditions([output('spark')])}."]


def spark_cores() -> list[str]:
    """The work that grows with the data, the rest, and what follows for many cores."""
    if not SPARK_OUTPUT.exists():
        return [f"({UNSEEN}: `make bench-spark`)"]
    lines = []
    for job in ("crf", "lap", "count", "tag"):
        own = [cells("spark", job=job, place=f"^{n} worker") for n in (1, 2)]
        one, two = (float(line["worker cpu s"]) for line in own)
        amount, unit = own[0]["data"].split()
        name = (SPARK_JOBS[job], own[0]["data"])
        if two >= one:  # nothing of it is shared
            lines.append((*name, *["-"] * 4))
            continue
        fixed, work = max(0.0, 2 * two - one), 2 * min(one - two, one / 2)
        # Nine tenths of the time are work where there is nine times as much of it as of the rest.
        each = 9 * fixed * int(amount.replace(",", "")) / work
        shares = (f"{each:,.0f} {unit}", f"{1000 * each:,.0f}") if fixed else ("any", "any")
        lines.append((*name, f"{work:.2f}", f"{fixed:.2f}", *shares))
    header = "job", "data", "work, s of one core", "the rest, s"
    return table((*header, "a core's share for 90 % work", "of 1,000 cores"), lines)


TABLES: dict[str, Callable[[], list[str]]] = {
    "how-fast": how_fast,
    "composite-models": composite_models,
    "tables-of-answers": tables_of_answers,
    "crf-estimators": crf_estimators,
    "word-vectors": word_vectors,
    "spark-workers": spark_workers,
    "spark-cores": spark_cores,
}


def filled(text: str) -> str:
    """A page with the tables as their sources are."""
    return BLOCK.sub(lambda own: f"{own[1]}\n{_text(own[2])}\n\n{own[3]}", text)


def _text(name: str) -> str:
    return "\n".join(TABLES[name]())


def unsupported() -> list[str]:
    """The jobs of the README whose figures no committed row or output holds."""
    return [line.split(" | ")[0].lstrip("| ") for line in how_fast() if UNSEEN in line]


def draw_reports() -> None:
    """The reports that are not as their rows are, with their pictures, and the page of all."""
    for name in reproduce.EXPERIMENTS:
        folder = reproduce.folder_of(name, "full")
        with tempfile.TemporaryDirectory() as made:
            if not (folder / "rows.jsonl").exists():
                continue
            shutil.copy(folder / "rows.jsonl", made)
            script = str(folder.parent / "run.py")
            words = [sys.executable, script, "--scale", "full", "--only-draw", "--output", made]
            subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
            if (Path(made) / "report.md").read_bytes() != (folder / "report.md").read_bytes():
                shutil.copytree(made, folder, dirs_exist_ok=True)
    reproduce.write_page("full", [])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing, look at tables alone")
    options = parser.parse_args()
    if not options.check:
        draw_reports()
    stale = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        made = filled(text)
        if made != text:
            stale.append(str(page.relative_to(ROOT)))
            if not options.check:
                page.write_text(made, encoding="utf-8")
    print("\n".join(f"{'differs' if options.check else 'written'}: {page}" for page in stale))
    print("\n".join(f"{UNSEEN}: {job}" for job in unsupported()))
    if options.check:
        sys.exit(bool(stale))
    list_rows([])


if __name__ == "__main__":
    main()
