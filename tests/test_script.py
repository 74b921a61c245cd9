"""In someone's own script: the snippet of the README under real torchrun, with every basic strategy."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).parent.parent / "README.md"


def snippet() -> str:
    """The script that the README shows."""
    (code,) = re.findall(r"```python\n(# script\.py\n.*?)```", README.read_text(), flags=re.S)
    return str(code)


def torchrun(script: Path, workers: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={workers}"]
    command += [f"--log-dir={script.parent / 'logs'}"]  # torchrun leaves its own in the temporary folder
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [*command, str(script), *arguments], capture_output=True, text=True, timeout=100, env=environment
    )


@pytest.mark.parametrize("strategy", ["allreduce", "ps:servers=2", "ps:mode=async", "independent"])
def test_the_readmes_script_trains_under_torchrun(strategy: str, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(snippet().replace('strategy="allreduce"', f'strategy="{strategy}"'))
    finished = torchrun(script, 2)
    assert finished.returncode == 0, finished.stderr
    losses = [float(x) for x in re.findall(r"loss ([0-9.e+-]+)", finished.stdout)]
    assert losses[-1] < 0.5 * losses[0]


def test_workers_of_a_script_hold_the_same_weights_by_allreduce_and_ps(tmp_path: Path) -> None:
    script = tmp_path / "weights.py"
    script.write_text(
        """
import sys, json, torch, paceline
from functools import partial
from paceline import Share
torch.manual_seed(int(__import__("os").environ["RANK"]))  # replicate makes rank 0's weights everyone's
model = torch.nn.Linear(3, 1)
replica = paceline.replicate(model, partial(torch.optim.Adam, lr=1e-2), strategy=sys.argv[1], clip_norm=0.5)
rank = int(__import__("os").environ["RANK"])
for step in range(5):
    n = 4 if step < 4 else 1 + rank  # an uneven last batch
    x = torch.randn(n, 3, generator=torch.Generator().manual_seed(10 * step + rank))
    loss = (replica.model(x) - x.sum(1, keepdim=True)).pow(2).mean()
    replica.backward(loss, share=Share(n, n, 8 if step < 4 else 3))
    replica.exchange(n)
    replica.update(1e-2)
weights = json.dumps([p.tolist() for p in model.parameters()])
print(f"weights {rank} {weights}\\n", end="", flush=True)  # in one piece: the workers share the pipe
replica.close()
"""
    )
    found = []
    for strategy in ("allreduce", "ps"):
        finished = torchrun(script, 2, strategy)
        assert finished.returncode == 0, finished.stderr
        found += [json.loads(w) for w in re.findall(r"weights \d (.*)", finished.stdout)]
    assert len(found) == 4
    assert found[0] == found[1]
    assert found[2] == found[3]
    flat = [[v for p in weights for row in p for v in (row if isinstance(row, list) else [row])] for weights in found]
    assert flat[0] == pytest.approx(flat[2], abs=1e-6)


def test_outside_torchrun_the_remedy_is_named(tmp_path: Path) -> None:
    code = "import torch, paceline; paceline.replicate(torch.nn.Linear(1, 1), torch.optim.SGD)"
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert finished.returncode == 1
    assert "start the script with torchrun" in finished.stderr


def test_uneven_samples_without_shares_are_refused_not_averaged_wrongly(tmp_path: Path) -> None:
    script = tmp_path / "uneven.py"
    script.write_text(
        """
import os, torch, paceline
from functools import partial
model = torch.nn.Linear(1, 1)
replica = paceline.replicate(model, partial(torch.optim.SGD, lr=0.1))
n = 2 + int(os.environ["RANK"])
replica.backward(replica.model(torch.ones(n, 1)).mean())
replica.exchange(n)
"""
    )
    finished = torchrun(script, 2)
    assert finished.returncode != 0
    assert "Workers have different numbers of samples, [2, 3]: pass share=" in finished.stderr
