"""Training that is killed and goes on with another number of ranks, with every loss the same to the last bit.

Each rank is a process with a loader of its own. It computes the gradient of each row of its share of a batch; the
trainer puts the shares together in the order of the ranks and adds the rows up. It saves the model with the state of a
loader after every few steps. The run with four ranks is killed with SIGKILL at a random step, and two ranks go on from
what was saved.

`python resumed_training.py HOST:PORT` does the same with the loaders of a server.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import substrait.dataframe as sub

import tidegate
from tidegate.training import Loader, Shuffle

FILES, ROWS, BATCH, EPOCHS = 4, 1_500, 128, 2
SAVE_EVERY = 5
RATE = 0.2
HERE = "-"  # the address of a service in each rank's own process


def main(address: str = HERE) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_files(folder)
        whole = folder / "whole.json"
        run(folder, whole, 1, address)
        losses = json.loads(whole.read_text())["losses"]
        print(f"One rank, undisturbed: {len(losses)} steps, the last loss is {float.fromhex(losses[-1]):.6f}.")

        broken = folder / "broken.json"
        last = random.randrange(1, len(losses) - SAVE_EVERY)
        run(folder, broken, 4, address, kill_after=last)
        saved = len(json.loads(broken.read_text())["losses"]) if broken.exists() else 0
        print(f"Four ranks, killed at a random step: {saved} steps are saved.")
        run(folder, broken, 2, address)
        print("Two ranks go on from there. Every loss the same, to the last bit?", end=" ")
        print("Yes." if json.loads(broken.read_text())["losses"] == losses else "No.")


def run(folder: Path, saved: Path, ranks: int, address: str, kill_after: int | None = None) -> None:
    """Train in a process of its own to the end, or until it is killed with its ranks after some steps."""
    command = [sys.executable, __file__, "train", str(folder), str(saved), str(ranks), address]
    trainer = subprocess.Popen(command, start_new_session=True, stdout=subprocess.PIPE, text=True)
    with trainer:
        for step, _ in enumerate(trainer.stdout or (), 1):  # a line for each step
            if step == kill_after:
                os.killpg(trainer.pid, signal.SIGKILL)
                return
    if trainer.returncode != 0:
        raise SystemExit("the trainer failed; its error is above")


def train(folder: Path, saved: Path, ranks: int, address: str) -> None:
    """Train from what was saved, to the end of the last epoch."""
    model: dict[str, Any] = {"weights": [(0.0).hex()] * 2, "losses": [], "loader": None}
    if saved.exists():
        model = json.loads(saved.read_text())
    weights, losses = np.array([float.fromhex(weight) for weight in model["weights"]]), model["losses"]
    pipes = [start_rank(folder, rank, ranks, address, model["loader"]) for rank in range(ranks)]
    while True:
        for pipe in pipes:
            pipe.send(weights)
        shares = [pipe.recv() for pipe in pipes]
        if shares[0] is None:
            break
        errors, gradients = (np.concatenate(parts) for parts in zip(*(share[:2] for share in shares), strict=True))
        weights = weights - RATE * gradients.sum(axis=0) / len(gradients)
        losses.append(float((errors**2).sum() / len(errors)).hex())
        if len(losses) % SAVE_EVERY == 0:
            save(saved, weights, losses, shares[0][2])
        print(len(losses), flush=True)
        time.sleep(0.001)
    save(saved, weights, losses, None)


def save(saved: Path, weights: np.ndarray[Any, Any], losses: list[str], loader: Any) -> None:
    """Save all that belongs together in one file, which appears at once."""
    text = json.dumps({"weights": [float(weight).hex() for weight in weights], "losses": losses, "loader": loader})
    written = saved.with_suffix(".new")
    written.write_text(text)
    written.replace(saved)


def start_rank(folder: Path, rank: int, ranks: int, address: str, state: Any) -> Connection:
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    context.Process(target=serve_rank, args=(there, folder, rank, ranks, address, state), daemon=True).start()
    there.close()
    return here


def serve_rank(pipe: Connection, folder: Path, rank: int, ranks: int, address: str, state: Any) -> None:
    """Answer weights with the errors and gradients of the rank's rows of the next batch, and the loader's state."""
    with tidegate.local() if address == HERE else tidegate.connect(address) as client:
        loader = Loader(
            client,
            labelled_rows(),
            {"samples": str(folder / "*.parquet")},
            batch_size=BATCH,
            epochs=EPOCHS,
            shuffle=Shuffle(seed=5, rows=3_000),
            rank=rank,
            ranks=ranks,
        )
        if state is not None:
            loader.load_state_dict(state)
        with loader:
            for batch in loader:
                weights = pipe.recv()
                errors = weights[0] * batch["x"] + weights[1] - batch["y"]
                gradients = np.stack([errors * batch["x"], errors], axis=1)
                pipe.send((errors, gradients, loader.state_dict()))
        pipe.recv()
        pipe.send(None)


def labelled_rows() -> bytes:
    samples = sub.read_named_table("samples", {"x": sub.fp64, "y": sub.fp64})
    return bytes(samples.filter(sub.col("y").is_not_null()).to_plan().SerializeToString())


def make_files(folder: Path) -> None:
    numbers = np.random.default_rng(3)
    for number in range(FILES):
        x = numbers.random(ROWS)
        y = 3 * x + 1 + numbers.normal(0, 0.1, ROWS)
        labels = pa.array(y, mask=numbers.random(ROWS) < 0.1)
        pq.write_table(pa.table({"x": x, "y": labels}), folder / f"part-{number}.parquet")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["train", of, into, count, at]:
            train(Path(of), Path(into), int(count), at)
        case arguments:
            main(*arguments)
