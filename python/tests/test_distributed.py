"""Fits by several processes, which give what one process gives."""

import importlib
import os
import pathlib
import pickle
import subprocess
import sys

import pytest

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples" / "python"
SMALL = ["--steps", "12", "--batch", "32", "--count", "6", "--size", "8", "--every", "3"]

# Goes the same way as the example, and kills its second process once, in the midst of it.
KILLED = """
import os, pathlib, signal, sys
sys.path.insert(0, {examples!r})
import ddp_gaussians, training
killed = pathlib.Path({folder!r}) / "killed"

def after_step(rank, step):
    if rank == 1 and step == 7 and not killed.exists():
        killed.touch()
        os.kill(os.getpid(), signal.SIGKILL)

if __name__ == "__main__":
    ddp_gaussians.main(sys.argv[1:], after_step=after_step)
    training.finish()
"""


@pytest.fixture
def example(monkeypatch):
    """Imports an example."""
    pytest.importorskip("torch")
    pytest.importorskip("PIL")
    monkeypatch.syspath_prepend(str(EXAMPLES))
    return importlib.import_module


def torchrun(*arguments):
    """Runs two processes."""
    path = os.pathsep.join([str(EXAMPLES.parents[1] / "python"), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", *map(str, arguments)]
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done


def losses(path):
    return [float(line) for line in path.read_text().split()]


def test_two_processes_fit_as_one_does(example, tmp_path):
    wanted = example("ddp_splat3d").main(SMALL)
    torchrun(EXAMPLES / "ddp_splat3d.py", *SMALL, "--losses", tmp_path / "losses")
    assert losses(tmp_path / "losses") == pytest.approx(wanted, rel=1e-4)


def test_a_process_that_is_killed_is_started_again_and_nothing_is_lost(example, tmp_path):
    wanted = example("ddp_gaussians").main(SMALL)
    script = tmp_path / "killed.py"
    script.write_text(KILLED.format(examples=str(EXAMPLES), folder=str(tmp_path)))
    files = ["--checkpoint", tmp_path / "fit.pt", "--losses", tmp_path / "losses"]
    done = torchrun("--max-restarts", "1", script, *SMALL, *files)
    assert (tmp_path / "killed").exists() and "exitcode: -9" in done.stderr
    assert losses(tmp_path / "losses") == pytest.approx(wanted, rel=1e-4)


def test_a_run_that_is_cut_off_goes_on_from_its_checkpoint(example, tmp_path):
    wanted = example("ddp_gaussians").main(SMALL)

    class CutOff(Exception):
        pass

    def after_step(rank, step):
        if step == 7:
            raise CutOff

    arguments = [*SMALL, "--checkpoint", str(tmp_path / "fit.pt")]
    with pytest.raises(CutOff):
        example("ddp_gaussians").main(arguments, after_step=after_step)
    steps = []
    found = example("ddp_gaussians").main(arguments, after_step=lambda rank, step: steps.append(step))
    assert wanted[-1] < wanted[0] and steps[0] == 6 and found == pytest.approx(wanted, rel=1e-6)


def test_modules_travel_to_other_processes(monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.syspath_prepend(str(EXAMPLES))
    sweep = importlib.import_module("sweep")
    found = sweep.main(["--workers", "1", "--rates", "0.05", "0.5"])
    assert sorted(found) == [0.05, 0.5] and found[0.5] < found[0.05]
    loss = sweep.program()
    assert pickle.loads(pickle.dumps(loss))(2.0, 0.5, 3.0, 1.0) == loss(2.0, 0.5, 3.0, 1.0)
