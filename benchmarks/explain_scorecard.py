"""How often `explain` is right about faults that were injected: right, declined or wrong, for every situation.

    python benchmarks/explain_scorecard.py [--load] [--repeats 3] [--more] [--workers 2,4] [--only TEXT] [--page FILE]

Every situation is run, explained and judged several times (`tests/explain/scorecard.py` has them). With --load other
processes burn all cores meanwhile. Figures with and without load are kept in `build/`, and the page shows both. Ctrl-C
ends it; what was judged until then is written.
"""

import argparse
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path

ROOT = Path(__file__).parent.parent
TESTS = str(ROOT / "tests")
sys.path[0] = TESTS  # instead of this folder, whose `testbed` is not theirs
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (TESTS, os.environ.get("PYTHONPATH"))))  # workers need it, too

from explain.scorecard import SITUATIONS, Situation, Trial, Verdict, busy_cores  # noqa: E402

RESULTS = ("right", "declined", "wrong")
RIGHT_IDLE, RIGHT_LOADED = 0.90, 0.75
STOLEN, TRIES = 0.03, 3
"""Share of the cores' time that other machines of the host may have; otherwise a trial is repeated, so many times."""

KEPT = ROOT / "build" / "explain-scorecard"

Counts = dict[str, dict[str, int]]
"""By situation: how often each result came."""


def trials(situations: Sequence[Situation], workers: Sequence[int], repeats: range, *, loaded: bool) -> Iterator[Trial]:
    """Every situation once, then again, so that a short interruption shows in all of them."""
    for repeat in repeats:
        for situation in situations:
            for count in workers:
                yield Trial(situation=situation, workers=count, repeat=repeat, loaded=loaded)


def measure(planned: Sequence[Trial], before: Counts, file: Path) -> tuple[Counts, bool]:
    """Judge them one after the other, and keep the counts after each; whether all of them were judged."""
    counts = {trial.situation.name: dict.fromkeys(RESULTS, 0) for trial in planned} | before
    begun = time.perf_counter()
    try:
        for done, trial in enumerate(planned, start=1):
            verdict = undisturbed(trial)
            counts[trial.situation.name][verdict.result] += 1
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(counts, indent=1))
            minutes = (time.perf_counter() - begun) / 60
            print(
                f"[{done}/{len(planned)}, {minutes:.0f} of about {minutes / done * len(planned):.0f} min] "
                f"{verdict.result}: {trial.situation.name}, {trial.workers} workers",
                file=sys.stderr,
            )
            if verdict.result != "right":
                print(f"    {verdict.reason}\n    {verdict.said}", file=sys.stderr)
    except KeyboardInterrupt:
        print("Interrupted: what was judged until now is written.", file=sys.stderr)
        return counts, False
    return counts, True


def undisturbed(trial: Trial) -> Verdict:
    """Its verdict; on a machine that should be idle, again where the host's other machines took the cores."""
    for _ in range(TRIES):
        verdict = trial.verdict()
        if trial.loaded or verdict.stolen <= STOLEN:
            break
        print(f"    again: other machines of the host had {verdict.stolen:.0%} of the cores", file=sys.stderr)
    return verdict


def totals(counts: Counts) -> Counter[str]:
    """The results of all situations together."""
    return sum((Counter(row) for row in counts.values()), Counter())


def page(idle: Counts, loaded: Counts) -> str:
    """The page: what is judged, and a row for every situation."""
    names = [situation.name for situation in SITUATIONS if situation.name in idle or situation.name in loaded]
    rows = [f"| {name} | {_cells(idle.get(name))} | {_cells(loaded.get(name))} |" for name in names]
    both = [f"| **all** | {_cells(totals(idle) if idle else None)} | {_cells(totals(loaded) if loaded else None)} |"]
    return "\n".join([*_HEAD, *rows, *both, ""])


_HEAD = """# How often `explain` is right

Written by `python benchmarks/explain_scorecard.py`, once without and once with `--load`. Real runs with 2 and 4 workers
on two cores; every worker computes for some milliseconds, and a known fault is added. The expected cause, worker, time
and advice are declared beside the fault in `tests/explain/scorecard.py`.

- **right**: every fault of at least a tenth of a step is among the causes, with the right worker, the right time
  (within 20 %, or 40 % under load; 3 ms are allowed in any case) and advice about the right thing, and no other cause
  of a tenth of a step is stated.
- **declined**: a fault is not named, and nothing wrong is said.
- **wrong**: a cause that is not there, or the wrong worker, time or advice.

The time of a fault in every step is the injected one; of one worker among four, how much later it arrived than the mean
of the others, since the worker on the same core computes meanwhile. That of a fault in some steps is what the last
arrival would have been earlier without it, from the moments at which workers arrived. `shared cores` and `spread` are
true besides the faults where workers share a core with one another or with others; so is `exchange` under load, because
communication needs a core. Without load, a run during which other machines of the host had more than 3 % of the cores
is repeated, at most twice. "Nothing at all" is right where the run is called compute-bound or, under load, where the
shared cores are named.

| situation | right | declined | wrong | right, loaded | declined, loaded | wrong, loaded |
|---|---|---|---|---|---|---|""".splitlines()


def _cells(row: dict[str, int] | Counter[str] | None) -> str:
    return " | ".join(str(row[result]) if row is not None else "" for result in RESULTS)


def reached(counts: Counts, *, loaded: bool) -> bool:
    """Whether nothing is wrong, and enough is right."""
    all_of_them = totals(counts)
    share = all_of_them["right"] / max(1, all_of_them.total())
    least = RIGHT_LOADED if loaded else RIGHT_IDLE
    print(f"right {share:.0%} (at least {least:.0%}), wrong {all_of_them['wrong']} of {all_of_them.total()}")
    return share >= least and not all_of_them["wrong"]


def main() -> None:
    """Measure, write the page, and fail where too little is right or anything is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--load", action="store_true", help="burn all cores by other processes meanwhile")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--more", action="store_true", help="add to the figures that are kept")
    parser.add_argument("--workers", default="2,4")
    parser.add_argument("--only", default="", help="situations whose name has this text")
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "explain-scorecard.md")
    asked = parser.parse_args()
    chosen = [situation for situation in SITUATIONS if asked.only in situation.name]
    if not chosen:
        sys.exit(
            f"--only {asked.only!r}: no situation is called so. There are: {', '.join(s.name for s in SITUATIONS)}."
        )
    files = {loaded: KEPT / f"{'loaded' if loaded else 'idle'}.json" for loaded in (False, True)}
    before: Counts = json.loads(files[asked.load].read_text()) if asked.more and files[asked.load].exists() else {}
    done = max((sum(row.values()) for row in before.values()), default=0)  # so that other steps are hit by chance
    repeats = range(done, done + asked.repeats)
    planned = list(trials(chosen, [int(n) for n in asked.workers.split(",")], repeats, loaded=asked.load))
    with busy_cores(sorted(os.sched_getaffinity(0))) if asked.load else nullcontext():
        counts, whole = measure(planned, before, files[asked.load])
    kept = {loaded: json.loads(file.read_text()) if file.exists() else {} for loaded, file in files.items()}
    asked.page.write_text(page(kept[False], kept[True]))
    print(asked.page)
    if not reached(counts, loaded=asked.load) or not whole:
        sys.exit(1)


if __name__ == "__main__":
    main()
