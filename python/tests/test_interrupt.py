"""Runs that are interrupted, and processes that fork."""

import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest

import pullback as pb

TEXT = """
[Differentiable] float square(float x) { return x * x; }
float slow(float x, int n) { float s = x; for (int i = 0; i < n; i++) s = sin(s) + 0.5; return s; }
float endless(float x) { float s = x; uint i = 0; while (i != 1) { s = sin(s); i = i * 2 + 2; } return s; }
RWStructuredBuffer<float> y;
[shader("compute")] [numthreads(64, 1, 1)] void long_kernel(uint3 id : SV_DispatchThreadID)
{
    float s = id.x;
    for (int i = 0; i < 100000; i++) s = sin(s) + 0.5;
    if (id.x < 64) y[id.x] = s;
}
"""

@pytest.fixture(autouse=True)
def interrupts():
    """Has Python raise `KeyboardInterrupt`, which it does not do where a shell has started it in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


posix = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")


def interrupted(call):
    """Seconds from the signal to the exception."""
    sent = []

    def send():
        time.sleep(0.4)
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=send)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        call()
        pytest.fail("it was over before the signal")
    seconds = time.monotonic() - sent[0]
    thread.join()
    return seconds


@pytest.mark.parametrize("backend", ["cranelift", "interp"])
@pytest.mark.parametrize("threads", [0, 1])
def test_a_long_call_is_interrupted(backend, threads):
    m = pb.load_source(TEXT, backend=backend, threads=threads)
    x = np.zeros(1_000_000, np.float32)
    assert interrupted(lambda: m.slow(x, 100_000)) < 1
    # The module is as good as before.
    np.testing.assert_allclose(m.slow(x[:300], 1), 0.5)
    assert m.square(np.arange(3)).tolist() == [0, 1, 4]


def test_a_kernel_is_interrupted():
    m = pb.load_source(TEXT, backend="cranelift")
    y = np.zeros(64, np.float32)
    assert interrupted(lambda: m.long_kernel(y=y).launch(1_000_000)) < 1
    m.long_kernel(y=y).launch(1)
    assert y.any()


def test_what_does_not_end_is_left_alone():
    # In a process of its own: the thread runs on.
    code = """
        import os, signal, sys, threading, time
        import numpy as np
        import pullback as pb
        signal.signal(signal.SIGINT, signal.default_int_handler)
        m = pb.load_source(sys.argv[1], backend="cranelift")
        for x in [np.float32(1), np.ones(100_000, np.float32)]:
            threading.Timer(0.4, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
            start = time.monotonic()
            try:
                m.endless(x)
                sys.exit("it ended")
            except KeyboardInterrupt:
                assert time.monotonic() - start < 1.4, time.monotonic() - start
        big = np.arange(300_000)
        assert (m.square(big) == big.astype(np.float32) ** 2).all()
        print("right")
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), TEXT], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout) == (0, "right\n"), done.stderr


def test_handlers_may_run_functions_themselves():
    m = pb.load_source(TEXT, backend="cranelift")
    seen = []
    before = signal.signal(signal.SIGALRM, lambda *_: seen.append(m.slow(1.0, 3)))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        x = np.zeros(20_000, np.float32)
        n = 1000
        start = time.monotonic()
        while time.monotonic() - start < 0.5:
            m.slow(x, n)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert seen == [m.slow(1.0, 3)]


def test_other_threads_call_as_before():
    m = pb.load_source(TEXT, backend="cranelift")
    found = []
    threads = [threading.Thread(target=lambda: found.append(m.slow(np.ones(5000, np.float32), 10)[0])) for _ in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert len(set(found)) == 1 and len(found) == 4


def in_child(work, seconds=60):
    """What a forked child writes; an error if it does not end."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.write(write, str(work()).encode())
            status = 0
        finally:
            os._exit(status)
    os.close(write)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            with os.fdopen(read) as stream:
                return stream.read(), os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    pytest.fail("the child hangs")


@posix
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("backend", ["cranelift", "tiers", "interp"])
def test_a_forked_process_goes_on(backend):
    m = pb.load_source(TEXT, backend=backend)
    n = 500 if backend == "interp" else 200_000
    x = np.arange(n, dtype=np.float32)
    m.square(x)
    m.slow(x[: n // 10], 100)
    wanted = float(m.square(x).sum())
    for _ in range(3):
        # Old functions, and new ones.
        assert in_child(lambda: float(m.square(x).sum())) == (str(wanted), 0)
        assert in_child(lambda: m.square.grad(x, wrt="x").sum() + m.slow(x, 2).shape[0])[1] == 0
        assert in_child(lambda: pb.load_source(TEXT, backend=backend).square(3.0)) == ("9.0", 0)
    assert float(m.square(x).sum()) == wanted


@posix
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_while_others_compile():
    stop = threading.Event()
    failed = []

    def work():
        k = 0
        while not stop.is_set():
            k += 1
            m = pb.load_source(f"float f(float x) {{ float s = x; for (int i = 0; i < 300; i++) s = sin(s) * {k}; return s; }}")
            for _ in range(4):
                if m.f(np.ones(3000, np.float32)).shape != (3000,):
                    failed.append(k)

    threads = [threading.Thread(target=work) for _ in range(2)]
    [t.start() for t in threads]
    try:
        for k in range(8):
            text = f"float g(float x) {{ float s = x; for (int i = 0; i < 30; i++) s = s * {k}; return s + 1; }}"
            assert in_child(lambda: pb.load_source(text).g(np.zeros(10_000)).sum()) == ("10000.0", 0)
    finally:
        stop.set()
        [t.join() for t in threads]
    assert not failed


def _pool_work(n):
    m = pb.load_source(TEXT)
    return float(m.square(np.full(10_000, n, np.float32)).sum()), float(m.slow(np.float32(n), n))


@posix
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_pools_of_processes(method):
    wanted = [_pool_work(n) for n in range(6)]
    with multiprocessing.get_context(method).Pool(3) as pool:
        assert pool.map_async(_pool_work, range(6)).get(timeout=100) == wanted


@posix
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_that_ends_as_python_does():
    # What is registered for the end of the parent must not wait in the child for threads that it does not have.
    code = """
        import os, sys
        import numpy as np
        import pullback as pb
        m = pb.load_source("float f(float x) { float s = x; for (int i = 0; i < 2000; i++) s = sin(s) + 0.1; return s; }")
        m.f(np.ones(20_000, np.float32))
        child = os.fork()
        if child == 0:
            m.f(np.ones(20_000, np.float32))
            sys.exit(7)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(code)],
        capture_output=True, text=True, timeout=60, env={**os.environ, "PULLBACK_CACHE": "off"},
    )
    assert (done.returncode, done.stdout) == (0, "7\n"), done.stderr


def _cached(folder, n):
    os.environ["PULLBACK_CACHE"] = folder
    m = pb.load_source(f"float f(float x) {{ return x * {n % 3} + sin(x); }}", backend="llvm")
    x = np.arange(1000, dtype=np.float32)
    return bool(np.allclose(m.f(x), x * (n % 3) + np.sin(x), atol=1e-4))


def test_several_processes_share_a_cache(tmp_path):
    folder = tmp_path / "cache"
    context = multiprocessing.get_context("spawn")
    with context.Pool(3) as pool:
        found = pool.starmap_async(_cached, [(str(folder), n) for n in range(12)]).get(timeout=100)
    assert all(found) and len(found) == 12
    kept = list(folder.glob("*.kernel"))
    # None where LLVM is not on the machine; nothing half written in any case.
    assert len(kept) in (0, 3) and not list(folder.glob("*.new"))
    # What is broken is made again.
    for path in kept:
        path.write_bytes(path.read_bytes()[:100])
    with context.Pool(2) as pool:
        assert all(pool.starmap_async(_cached, [(str(folder), n) for n in range(6)]).get(timeout=100))
