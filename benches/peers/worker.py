"""A process that runs the kernels of one tool, for peers.py: one JSON object per line on standard input and output.

    worker.py MODULE VARIANT SETTINGS

`MODULE` is a file of this folder. Its class `Tool` is made from the variant and the settings, and has `versions`, a text,
and `kernels(name, problem, inputs, parameters)`, which returns a function for each kernel. Such a function runs the kernel
once, waits until it has ended, and returns its outputs by buffer, as arrays of the tool; `Tool.numbers` makes NumPy arrays
of these, with a row for each thread.
"""

import importlib
import json
import os
import sys
import time
import traceback

import numpy as np

from problems import PROBLEMS


def answer(tool, state, message, settings):
    if message["do"] == "compile":
        name, kernel = message["program"], message["kernel"]
        state["call"] = None
        # The primal and the gradient of a program share what is compiled; an error belongs to the kernel that has it.
        if state.get("program") != name:
            state["program"], state["made"] = name, None
            problem = PROBLEMS[name]
            state["made"] = tool.kernels(name, problem, *problem.memory(settings["threads"]))
        call = state["made"][kernel]
        start = time.perf_counter()
        numbers = tool.numbers(call())
        first = time.perf_counter() - start
        for buffer, array in numbers.items():
            np.save(os.path.join(settings["folder"], f"{message['save']}-{buffer}.npy"), np.asarray(array, np.float32).ravel())
        # What a tool does once a kernel has run for a while, it does now, not while it is timed.
        start = time.perf_counter()
        while time.perf_counter() - start < settings["warm"]:
            call()
        state["call"] = call
        return {"buffers": sorted(numbers), "first": first}
    # Processor time of all threads of this process: other work on the machine takes none of it.
    call, runs, start = state["call"], 0, time.process_time()
    while True:
        call()
        runs += 1
        spent = time.process_time() - start
        if spent >= message["seconds"]:
            return {"seconds": spent / runs}


def main():
    module, variant, settings = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
    # What a tool prints goes to the standard error.
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def reply(value):
        replies.write(json.dumps(value) + "\n")
        replies.flush()

    try:
        tool = importlib.import_module(module).Tool(variant, settings)
    except Exception as error:
        traceback.print_exc()
        return reply({"error": f"{type(error).__name__}: {error}", "absent": isinstance(error, ModuleNotFoundError)})
    reply({"versions": tool.versions})
    state = {}
    for line in sys.stdin:
        try:
            reply(answer(tool, state, json.loads(line), settings))
        except Exception as error:
            traceback.print_exc()
            reply({"error": f"{type(error).__name__}: {error}"})


if __name__ == "__main__":
    main()
