"""A process that obeys one command a line on standard input and answers each with one line of JSON."""

import json
import subprocess


class Failed(Exception):
    """The process answered with an error, or ended."""


class Server:
    def __init__(self, command, environment=None):
        self.command = command
        self.environment = environment
        self.start()

    def start(self):
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env=self.environment)

    def restart_if_ended(self):
        """A fresh process in the place of one that has ended; it knows nothing of what was loaded."""
        if self.process.poll() is None:
            return
        self.stop()
        self.start()

    def ask(self, line):
        try:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # it has ended: there is no answer either
        answer = self.process.stdout.readline()
        if not answer:
            raise Failed(f"{self.command[0]} ended with status {self.process.wait()} at '{line}'")
        answer = json.loads(answer)
        if "error" in answer:
            raise Failed(answer["error"])
        return answer

    def stop(self):
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass
        self.process.wait()
        self.process.stdout.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
