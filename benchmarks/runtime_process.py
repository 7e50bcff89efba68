"""The processes that compare.py measures, each bounded in time."""

import json
import os
import select
import signal
import subprocess
import time


class Lost(Exception):
    """A runtime that cannot take part; the text says why."""


class Server:
    """A process that obeys load, run and outputs. Several may work at once: send to all, then receive from each."""

    def __init__(self, command, environment, log, limit_s):
        self.log = open(log, "w")
        self.limit_s = limit_s
        self.started = time.monotonic()
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log,
                                        text=True, env=environment, start_new_session=True)

    def send(self, line):
        self.deadline = time.monotonic() + self.limit_s
        try:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # it has ended: there is no answer either

    def receive(self):
        left = max(0, self.deadline - time.monotonic())
        if not select.select([self.process.stdout], [], [], left)[0]:
            raise Lost(f"no answer within {self.limit_s} s")
        answer = self.process.stdout.readline()
        if not answer:
            raise Lost(f"the process ended with status {self.process.wait()}; see {self.log.name}")
        try:
            answer = json.loads(answer)
        except ValueError:
            raise Lost(f"answers with something else than JSON: {answer.strip()[:200]}") from None
        if "error" in answer:
            raise Lost(answer["error"])
        return answer

    def ask(self, line):
        self.send(line)
        return self.receive()

    def stop(self):
        """Ends it with all that it has started: a compiler that goes on would disturb the others."""
        end_group(self.process)
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass
        self.process.stdout.close()
        self.log.close()


def end_group(process):
    """Kills a process that leads a group of its own, and that group."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def run_bounded(command, environment, limit_s, shown=False):
    """subprocess.run with the output kept, or shown as it comes; Lost when it takes longer than allowed."""
    output = None if shown else subprocess.PIPE
    process = subprocess.Popen(command, stdout=output, stderr=output, text=True, env=environment, start_new_session=True)
    with process:
        try:
            out, errors = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            raise Lost(f"{' '.join(map(str, command[:2]))} did not end within {limit_s} s") from None
        finally:
            end_group(process)
    return subprocess.CompletedProcess(command, process.returncode, out, errors)


def first_answer_ms(command, environment, limit_s):
    """From the start of a process to the line that says that its answer is there."""
    begin = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment,
                               start_new_session=True)
    try:
        if not select.select([process.stdout], [], [], limit_s)[0]:
            raise Lost(f"no answer within {limit_s} s")
        line = process.stdout.readline()
        took = 1e3 * (time.perf_counter() - begin)
        try:
            process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            raise Lost(f"did not end within {limit_s} s") from None
        if process.returncode != 0 or not line.strip():
            raise Lost(f"ended with status {process.returncode}")
        return took
    finally:
        end_group(process)
        process.stdout.close()
