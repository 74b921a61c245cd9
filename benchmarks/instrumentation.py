"""What the clock costs: the product's loop with and without it, toggled every 50 steps within the same processes.

    python benchmarks/instrumentation.py [--minutes 10] [WORKERSxWORKLOAD@BATCH …]

With: phases of every step, buckets, sampled gradients, processor time. Without: none of it. By allreduce, on the VAE
and on one so small that a step takes two or three milliseconds; it stops when the 90 % interval of the ratio is within
± 1 %.
"""

import argparse

from turns import Contest, Turn, measure, product_turn

from paceline.engines.plan import plan
from paceline.spec import RunSpec
from paceline.workers.assemble import Parts
from paceline.workers.timing.clock import Clock
from paceline.workers.timing.marks import Phase

CASES = ("1xvae@1", "1xvae:channels=1,hidden=4@1", "2xvae:channels=1,hidden=4@1")
TURN_STEPS = 50
HALF_WIDTH = 0.01


class NoClock(Clock):
    """Notes nothing."""

    def begin(self) -> None:
        """Nothing."""

    def mark(self, phase: Phase, then: Phase | None = None) -> None:
        """Nothing."""

    def end_step(self, *, samples: int, units: int, loss: float) -> None:
        """Nothing."""


def ways(parts: Parts) -> tuple[Turn, Turn]:
    """The same loop over the same replica, with the clock and without."""
    loop, silent = product_turn(parts), NoClock()

    def turn(clock: Clock, steps: int) -> None:
        parts.clock.buckets.watch(0, False)  # nothing is watched before a first step is over
        loop(clock, steps)

    return lambda steps: turn(parts.clock, steps), lambda steps: turn(silent, steps)


def main() -> None:
    """Measure what was asked for and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", default=CASES)
    parser.add_argument("--minutes", type=float, default=10.0, help="at the most, for each workload")
    arguments = parser.parse_args()
    print("| workload | workers | batch | a step | speed with ÷ without the clock | 90 % interval | pairs of turns |")
    print("|---|---|---|---|---|---|---|")
    for case in arguments.cases:
        workers, _, text = case.partition("x")
        name, _, batch = text.partition("@")
        spec = RunSpec(workload=name, workers=int(workers), batch=int(batch), steps=10**9, validate="off")
        ratio = measure(plan(spec), Contest(ways, TURN_STEPS, 0.0, HALF_WIDTH, 60 * arguments.minutes))
        step, between = f"{1e3 * ratio.step_seconds:.3g} ms", f"{ratio.low:.4f}–{ratio.high:.4f}"
        print(f"| {name} | {workers} | {batch} | {step} | {ratio.mean:.4f} | {between} | {ratio.pairs} |", flush=True)


if __name__ == "__main__":
    main()
