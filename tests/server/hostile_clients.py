"""Clients that vanish, half-read and lie, each on connections of its own."""

from __future__ import annotations

import random
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import grpc

from tidegate.proto.tidegate.v1 import plans_pb2_grpc, tasks_pb2_grpc
from tidegate.proto.tidegate.v1 import tasks_pb2 as pb
from tidegate.proto.values import PlanBytes

from ..executor import plans
from .attack import BUGS, METHODS, Attack, send
from .conftest import Stubs, inline

_CROSSED: Final = plans.plan(plans.crossed(plans.read("t", "x"), plans.read("u", "x")), "a", "b")
_WIDE: Final = 700
"""So many rows of both sources: half a million of them crossed, 8 MB."""
_WAIT: Final = 30.0
_IDLE_SECONDS: Final = 10.0
"""The server deletes the tasks of clients that vanished this long after their last call."""


@contextmanager
def _connected(address: str) -> Iterator[Stubs]:
    """Stubs whose connection nobody shares, and which breaks whatever is under way on it at the end."""
    with grpc.insecure_channel(address, options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
        yield Stubs(channel, tasks_pb2_grpc.TaskServiceStub(channel), plans_pb2_grpc.PlanServiceStub(channel))


def _create(stubs: Stubs, plan: PlanBytes) -> str:
    options = pb.TaskOptions(idle_seconds=_IDLE_SECONDS)
    request = pb.CreateTaskRequest(plan=pb.PlanBytes(json=plan.json or ""), options=options)
    return str(stubs.tasks.CreateTask(request, timeout=_WAIT).task.id)


def _epoch(task: str) -> pb.AddSplitsRequest:
    """A whole epoch of many rows."""
    request = pb.AddSplitsRequest(task=task, epoch=1, barrier=pb.Seal())
    for source in ("t", "u"):
        request.splits.add(source=source, split=inline(*range(_WIDE)))
    return request


def vanish_in_a_call(address: str, draw: random.Random) -> None:
    """Ask for an epoch, and go before the answer."""
    with _connected(address) as stubs:
        task = _create(stubs, _CROSSED)
        stubs.tasks.AddSplits.future(_epoch(task), timeout=_WAIT)
        time.sleep(draw.random() / 100)


def vanish_while_waiting(address: str, draw: random.Random) -> None:
    """Wait for an epoch that nobody seals, and go."""
    with _connected(address) as stubs:
        task = _create(stubs, _CROSSED)
        request = pb.NextRequest(task=task, wait_ms=60_000)
        getattr(request, "from").epoch = 1
        stubs.tasks.Next.future(request)
        time.sleep(draw.random() / 2)


def vanish_in_an_upload(address: str, draw: random.Random) -> None:
    """Send a part of a file."""
    with _connected(address) as stubs:
        task, gone = _create(stubs, _CROSSED), threading.Event()

        def parts() -> Iterator[pb.UploadRequest]:
            yield pb.UploadRequest(task=task, name="half", data=draw.randbytes(1 << 12))
            gone.wait(_WAIT)

        stubs.tasks.Upload.future(parts())
        time.sleep(draw.random() / 2)
        gone.set()


def half_read(address: str, draw: random.Random) -> None:
    """Read the first rows of a stream, stall, and go."""
    with _connected(address) as stubs:
        task = _create(stubs, _CROSSED)
        stubs.tasks.AddSplits(_epoch(task), timeout=_WAIT)
        request = pb.ResultsRequest(task=task, max_bytes=1 << 16)
        getattr(request, "from").epoch = 1
        next(stubs.tasks.Results(request, timeout=_WAIT))
        time.sleep(draw.random())


def half_send(address: str, draw: random.Random) -> None:
    """Begin to speak HTTP/2, say what means nothing, and go."""
    host, port = address.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=_WAIT) as connection:
        connection.sendall(
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[: draw.randrange(25)] + draw.randbytes(draw.randrange(200))
        )
        time.sleep(draw.random() / 2)


def lie(address: str, draw: random.Random) -> None:
    """Say what is not so, of a task of one's own; each lie is refused."""
    with _connected(address) as stubs:
        task = _create(stubs, _CROSSED)
        damaged = bytearray(inline(*range(100)).inline.arrow)
        damaged[draw.randrange(8, 200)] ^= 0xFF
        far = pb.Cursor(epoch=7, row=7)
        lies: tuple[tuple[Callable[..., object], object], ...] = (
            (stubs.tasks.AddSplit, pb.AddSplitRequest(task=task, source="nobody", split=inline(1))),
            (stubs.tasks.AddSplit, _split(task, pb.Split(file=pb.FileSplit(path="/etc/passwd")))),
            (stubs.tasks.AddSplit, _split(task, pb.Split(inline=pb.InlineSplit(arrow=bytes(damaged[:150]))))),
            (stubs.tasks.AddSplit, pb.AddSplitRequest(task=task, source="t", split=inline(1), epoch=9)),
            (stubs.tasks.RequestBarrier, pb.RequestBarrierRequest(task=task, epoch=9)),
            (stubs.tasks.Acknowledge, pb.AcknowledgeRequest(task=task, cursor=far)),
            (stubs.tasks.GetTask, pb.GetTaskRequest(task=task + "x")),
            (stubs.tasks.CreateTask, pb.CreateTaskRequest(plan=pb.PlanBytes(binary=draw.randbytes(60)))),
        )
        for call, request in lies:
            try:
                call(request, timeout=_WAIT)
            except grpc.RpcError as error:
                _check(error)
            else:
                raise BelievedLieError(str(request)[:200])


def _split(task: str, split: pb.Split) -> pb.AddSplitRequest:
    return pb.AddSplitRequest(task=task, source="t", split=split)


def babble(address: str, draw: random.Random) -> None:
    """Send requests that are made up."""
    with _connected(address) as stubs:
        attack = Attack(draw.randrange(1 << 30), ["", "none", _create(stubs, _CROSSED)])
        for _ in range(5):
            method = draw.choice(METHODS)
            messages = attack.requests(method)
            if (code := send(stubs.channel, method, messages)) in BUGS:
                raise FoundBugError(f"{method.name} {code.name} {' '.join(map(bytes.hex, messages))}")


class FoundBugError(Exception):
    """The server has answered with a bug of its own."""


class BelievedLieError(Exception):
    """The server has taken what is not so."""


def _check(error: grpc.RpcError) -> None:
    if error.code() in BUGS:
        raise FoundBugError(str(error)) from error


ACTS: Final = (
    vanish_in_a_call,
    vanish_while_waiting,
    vanish_in_an_upload,
    half_read,
    half_send,
    lie,
    babble,
)


class Hostility:
    """The number of times that each act was done, its ends, and the `bugs` that it met."""

    def __init__(self) -> None:
        self.ends: Counter[str] = Counter()
        self.bugs: list[str] = []

    def act(self, act: Callable[[str, random.Random], None], address: str, draw: random.Random) -> None:
        end = "done"
        try:
            act(address, draw)
        except grpc.RpcError as error:
            end = error.code().name
            if error.code() in BUGS:
                self.bugs.append(f"{act.__name__}: {error}")
        except OSError:
            end = "connection shut"
        except (FoundBugError, BelievedLieError) as error:
            end = type(error).__name__
            self.bugs.append(f"{act.__name__}: {error}")
        self.ends[f"{act.__name__}: {end}"] += 1


def harass(address: str, clients: int, seconds: float, seed: int) -> tuple[Counter[str], list[str]]:
    """So many clients for so many seconds, and an act of each at least: how acts ended, and bugs that were met."""
    hostility, until = Hostility(), time.monotonic() + seconds

    def client(number: int) -> None:
        draw = random.Random(seed + number)
        done = 0
        while done == 0 or time.monotonic() < until:
            hostility.act(ACTS[(number + done) % len(ACTS)], address, draw)
            done += 1
            time.sleep(draw.random() * 2)

    threads = [threading.Thread(target=client, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return hostility.ends, hostility.bugs
