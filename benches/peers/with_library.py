"""C libraries that are called by ctypes: those of `pullback build`, and the C++ that slangc writes.

g++ compiles the latter with -O3 -march=native. Its additions are not atomic, so neither are ours (`--exclusive`).
"""

import ctypes
import os
import re
import subprocess

import numpy as np

from problems import KERNELS

HERE = os.path.dirname(os.path.abspath(__file__))
GROUP = 64


class Buffer(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("count", ctypes.c_uint64)]


class Groups(ctypes.Structure):
    _fields_ = [("start", ctypes.c_uint32 * 3), ("end", ctypes.c_uint32 * 3)]


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr}")
    return done.stdout + done.stderr


class Tool:
    def __init__(self, variant, settings):
        self._program, self._folder = settings[variant], settings["folder"]
        self._library = {"pullback": self._ours, "slangc": self._theirs}[variant]
        try:
            version = run(self._program, "--version" if variant == "pullback" else "-v").strip()
        except FileNotFoundError as error:
            raise ModuleNotFoundError(f"there is no {self._program}") from error
        compiler = run("g++", "--version").splitlines()[0] if variant == "slangc" else f"commit {settings['commit']}"
        self.versions = f"{version}, {compiler}"

    def _ours(self, name, kernel):
        """Return the function that runs groups on buffers, and the order of these."""
        base = os.path.join(self._folder, f"{name}-{kernel}")
        file = os.path.join(HERE, name + ".slang")
        run(self._program, "build", file, "-o", base + ".so", "--header", base + ".h", "--native", "--exclusive", "--entry", kernel)
        function = getattr(ctypes.CDLL(base + ".so"), kernel)

        def call(buffers, groups):
            status = function(buffers, ctypes.c_uint32(groups), ctypes.c_uint32(1), ctypes.c_uint32(1))
            assert status == 0, status

        with open(base + ".h") as header:
            return call, re.search(r"in this order: (.*?)\.", header.read()).group(1).split(", ")

    def _theirs(self, name, kernel):
        base = os.path.join(self._folder, f"{name}-{kernel}-slangc")
        source, file = base + ".cpp", os.path.join(HERE, name + ".slang")
        run(self._program, file, "-DPLAIN", "-target", "cpp", "-entry", kernel, "-stage", "compute", "-o", source)
        with open(base + "-stubs.cpp", "w") as stubs:
            stubs.write('#include <stdlib.h>\nextern "C" void assertFailure(const char*) { abort(); }\n')
        run("g++", "-O3", "-march=native", "-shared", "-fPIC", "-w", source, base + "-stubs.cpp", "-o", base + ".so")
        function = getattr(ctypes.CDLL(base + ".so"), kernel)

        def call(buffers, groups):
            function(ctypes.byref(Groups((0, 0, 0), (groups, 1, 1))), None, buffers)

        with open(source) as text:
            order = re.search(r"struct GlobalParams_0\s*{(.*?)}", text.read(), re.S).group(1)
        return call, re.findall(r"(\w+?)_\d+;", order)

    def kernels(self, name, problem, inputs, parameters):
        made = {}
        for kernel in KERNELS:
            made[kernel] = self._kernel(*self._library(name, kernel), problem.outputs(kernel, len(inputs)), inputs, parameters)
        return made

    @staticmethod
    def _kernel(function, order, outputs, inputs, parameters):
        threads = len(inputs)
        written = {buffer: np.zeros(n, np.float32) for buffer, n in outputs.items()}
        arrays = {"inputs": inputs, "parameters": parameters, **written}
        # A buffer that the kernel does not use is in the list of arguments, too.
        unused = np.zeros(1, np.float32)
        used = [arrays.get(name, unused) for name in order]
        buffers = (Buffer * len(used))(*[Buffer(x.ctypes.data, x.size) for x in used])
        sums = [array for array in written.values() if len(array) < threads]

        def call():
            for array in sums:
                array.fill(0)
            function(buffers, threads // GROUP)
            return written

        call.keeps = used
        return call

    @staticmethod
    def numbers(outputs):
        return outputs
