#!/usr/bin/env python3
"""Runs our kernels' AMD machine code in an instruction-level emulator and compares with float64.

    tools/amd_emulate.py --emulator DIR [--mend] [--build build/cpu-release] [--targets gfx942] [--kernels norm,softmax]

DIR is a checkout of github.com/tinygrad/tinygrad; nothing of it is copied or changed. --mend corrects what it is known
to execute wrongly in the running process (amd_emulate_mend.py), and checks the corrected instructions first; without
it a wrong result of a kernel that holds such an instruction is not judged. Code objects come from the project's own HIP
compiler path and launches from its own plan functions, both through kpt_emulation_feed:
    cmake --build build/cpu-release --target kpt_emulation_feed

Prints one row for each kernel and target: cases run, the largest error as a part of what is allowed, or why it could
not be run. Ends with 1 when a result is wrong, and, unless --allow-missing is given, when a kernel of a target has no
case. References are in amd_emulate_cases.py and amd_emulate_*_cases.py.
"""

import argparse
import collections
import ctypes
import mmap
import multiprocessing
import os
import platform
import random
import re
import struct
import subprocess
import sys
import tempfile
import time
import traceback

import numpy as np

import amd_emulate_cases as cases
import amd_emulate_mend
import amd_emulate_mend_checks
import amd_emulate_norm_cases as norm_cases
import amd_emulate_tensor_cases as tensor_cases
import amd_emulate_weight_cases as weight_cases

ARCHITECTURES = {"gfx942": "cdna", "gfx950": "cdna", "gfx1100": "rdna3", "gfx1200": "rdna4", "gfx1201": "rdna4"}
WAVES = {"cdna": 64, "rdna3": 32, "rdna4": 32}
# The matrix cores, as kernels are named by them.
UNITS = {"gfx942": "cdna3", "gfx950": "cdna4", "gfx1100": "rdna3", "gfx1200": "rdna4", "gfx1201": "rdna4"}
PAGE = mmap.PAGESIZE
CANARY = 0xA5
KERNARG_ONLY = 1 << 3  # kernel_code_properties: the arguments' address is all that is passed
WAVE32 = 1 << 10

libc = ctypes.CDLL(None, use_errno=True)


class NotRunnable(Exception):
    """The emulator cannot run the kernel: its reason, not a wrong result."""


class Refused(Exception):
    """kpt_emulation_feed refused what it was asked for: its sentence."""


class Feed:
    """kpt_emulation_feed: code objects and launches."""

    def __init__(self, program, cache):
        self.process = subprocess.Popen([program, cache], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, question):
        self.process.stdin.write(question + "\n")
        self.process.stdin.flush()
        return self.line()

    def line(self):
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError("kpt_emulation_feed ended")
        if line.startswith("error "):
            raise Refused(line[6:].strip())
        return line.strip()

    def kernels(self, target):
        """Families by the kernels of the target's code objects."""
        line, found = self.ask(f"kernels {target}"), {}
        while line != "end":
            name, family = line.split()
            found[name] = family
            line = self.line()
        return found

    def plan(self, target, call):
        """Bytes of the workspace, and launches as (kernel, blocks, threads, argument bytes)."""
        workspace = int(self.ask(f"plan {target} 4 {call}").split()[1])
        launches = []
        while (line := self.line()) != "end":
            _, kernel, blocks, threads, *arguments = line.split()
            launches.append((kernel, int(blocks), int(threads), bytes.fromhex(arguments[0] if arguments else "")))
        return workspace, launches


def open_feed(options):
    program = os.path.join(options.build, "test_bin", "kpt_emulation_feed")
    return Feed(program, os.path.join(options.build, "amd_kernel_cache"))


class CodeObject:
    """An ELF file laid out in memory as a loader does it, and its kernel descriptors."""

    def __init__(self, data):
        segments_at, sections_at = struct.unpack_from("<QQ", data, 32)
        segment_size, segment_count, section_size, section_count = struct.unpack_from("<HHHH", data, 54)
        loads = []
        for i in range(segment_count):
            kind, _, offset, address, _, in_file, in_memory, _ = struct.unpack_from(
                "<IIQQQQQQ", data, segments_at + i * segment_size
            )
            if kind == 1:
                loads.append((offset, address, in_file, in_memory))
        self.size = max(address + in_memory for _, address, _, in_memory in loads)
        self.memory = mmap.mmap(-1, (self.size + PAGE - 1) // PAGE * PAGE)
        for offset, address, in_file, _ in loads:
            self.memory[address : address + in_file] = data[offset : offset + in_file]
        self.base = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        self.descriptors, self.code = {}, {}
        places = range(sections_at, sections_at + section_count * section_size, section_size)
        sections = [struct.unpack_from("<IIQQQQIIQQ", data, place) for place in places]
        for section in sections:
            if section[1] == 11:  # dynamic symbols
                names = sections[section[6]][4]
                for at in range(section[4], section[4] + section[5], 24):
                    name, _, _, _, value, size = struct.unpack_from("<IBBHQQ", data, at)
                    text = data[names + name : data.index(b"\0", names + name)].decode()
                    if text.endswith(".kd"):
                        self.descriptors[text[:-3]] = value
                    else:
                        self.code[text] = (value, size)

    def kernel(self, name):
        """Entry address, rsrc2 with the size of the LDS, bytes of scratch."""
        at = self.descriptors[name]
        lds, scratch = struct.unpack_from("<II", self.memory, at)
        (entry,) = struct.unpack_from("<q", self.memory, at + 16)
        (rsrc2,) = struct.unpack_from("<I", self.memory, at + 52)
        properties, preload = struct.unpack_from("<HH", self.memory, at + 56)
        if properties & ~WAVE32 != KERNARG_ONLY or preload != 0:
            raise NotRunnable(f"it is passed more than the arguments' address (properties {properties:#x})")
        return self.base + at + entry, rsrc2 & ~(0x1FF << 15) | ((lds + 511) // 512) << 15, scratch


def misexecuted(object_, kernel, arch, decode):
    """Instructions of a kernel that the emulator is known to execute otherwise than AMD's manuals say (its source,
    test/mockgpu/amd/emu.py, read and each seen in a wrong result):
      - _compile_sdwa leaves out the modifiers abs and neg of SDWA operands;
      - make_stores writes all 32 bits of the register for ds_load_*_d16, which keeps the other half;
      - in 16-bit instructions of CDNA it takes registers from v128 on for upper halves, as RDNA3 encodes them;
      - _compile_wmma takes the constant 0 as the sums of a WMMA for register v128, and bytes of FP8 for float16.
    A wrong result of a kernel that holds one says nothing of the kernel, unless the emulator is mended."""
    at, size = object_.code[kernel]
    end, found = at + size, set()
    while at < end:
        inst = decode(bytes(object_.memory[at : at + 16]), arch)
        name = inst.op.name if hasattr(inst, "op") and hasattr(inst.op, "name") else ""
        if name == "S_CODE_END":
            break
        changed = any(getattr(inst, field, 0) for field in ("src0_abs", "src0_neg", "src1_abs", "src1_neg"))
        if "SDWA" in type(inst).__name__ and changed:
            found.add(f"{name.lower()} with abs or neg in SDWA form")
        if "WMMA" in name and ("FP8" in name or not str(inst).rstrip(")").split(", ")[3].startswith("v")):
            found.add(f"{name.lower()} of FP8 or with a constant")
        if name.startswith("DS_LOAD") and "_D16" in name:
            found.add(name.lower())
        short = type(inst).__name__.split("_")[0] in ("VOP1", "VOP2", "VOPC") and re.search("[BFIU]16", name)
        if arch == "cdna" and short and any(int(n) >= 128 for n in re.findall(r"\bv\[?(\d+)", str(inst))):
            found.add(f"{name.lower()} with registers from v128 on")
        at += inst.size()
    return sorted(found)


class Memory:
    """Arrays whose end is the end of readable memory; what lies between an array and its page is watched."""

    def __init__(self):
        self.blocks = []

    def array(self, values):
        """A copy of `values` at an address that is a multiple of 16."""
        values = np.ascontiguousarray(values)
        size = values.nbytes
        pages = (size + 15 + PAGE - 1) // PAGE * PAGE or PAGE
        block = mmap.mmap(-1, pages + PAGE)
        base = ctypes.addressof(ctypes.c_char.from_buffer(block))
        if libc.mprotect(ctypes.c_void_p(base + pages), ctypes.c_size_t(PAGE), 0) != 0:
            raise OSError(ctypes.get_errno(), "mprotect")
        start = (pages - size) // 16 * 16
        ctypes.memset(base, CANARY, pages)
        view = np.frombuffer(block, dtype=values.dtype, count=values.size, offset=start).reshape(values.shape)
        view[...] = values
        self.blocks.append((block, base, start, size, pages))
        return view

    def damaged(self):
        """Whether something was written outside the arrays."""
        for block, _, start, size, pages in self.blocks:
            if any(byte != CANARY for byte in block[max(0, start - 64) : start] + block[start + size : pages]):
                return True
        return False


class Device:
    """What a case works with: memory, and calls that are planned, compiled and emulated."""

    def __init__(self, target, feed, emulator, folder, mended):
        run_asm, self.decode = emulator
        self.mended, self.fnuz = mended, mended and target == "gfx942"
        self.target, self.arch = target, ARCHITECTURES[target]
        self.wave = WAVES[self.arch]
        self.feed, self.run_asm, self.folder = feed, run_asm, folder
        self.families, self.objects = feed.kernels(target), {}
        self.memory = Memory()
        self.ran = []

    def array(self, values):
        return self.memory.array(values)

    def object_of(self, family):
        if family not in self.objects:
            path = os.path.join(self.folder, f"{self.target}.{family}.co")
            self.feed.ask(f"compile {family} {self.target} {path}")
            with open(path, "rb") as file:
                self.objects[family] = CodeObject(file.read())
        return self.objects[family]

    def suspects(self):
        """Instructions of the kernels that ran which the emulator executes wrongly."""
        if self.mended:
            return []
        found = []
        for kernel in dict.fromkeys(self.ran):
            found += misexecuted(self.object_of(self.families[kernel]), kernel, self.arch, self.decode)
        return found

    def workspace(self, call, **members):
        return self.feed.plan(self.target, text_of(call, members | {"workspace_only": 1}))[0]

    def run(self, call, **members):
        _, launches = self.feed.plan(self.target, text_of(call, members))
        for kernel, blocks, threads, arguments in launches:
            self.ran.append(kernel)
            object_ = self.object_of(self.families[kernel])
            entry, rsrc2, scratch = object_.kernel(kernel)
            block = ctypes.create_string_buffer(arguments + bytes(64), len(arguments) + 64)
            try:
                address = ctypes.addressof(block)
                self.run_asm(entry, object_.size, blocks, 1, 1, threads, 1, 1, address, rsrc2, scratch, self.arch)
            except Exception as error:
                reason = str(error).strip().split("\n")[0]
                raise NotRunnable(reason[:160]) from error
        if self.memory.damaged():
            raise AssertionError("memory outside the arrays was written")


def text_of(call, members):
    words = [call]
    for key, value in members.items():
        if value is None:
            continue
        if isinstance(value, np.ndarray):
            value = hex(value.ctypes.data)
        elif isinstance(value, tuple):
            value = ",".join(str(part) for part in value)
        words.append(f"{key}={int(value) if isinstance(value, bool) else value}")
    return " ".join(words)


def give_lds_room(emu):
    """The emulator reads the LDS for all lanes of a wave and writes it back for those that are off, whose address
    registers may hold anything. So its LDS gets all of the address space that 32 bits can name; what lies beyond its
    size is nobody's."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0x4000)
    room = mmap.mmap(-1, (1 << 32) + PAGE, flags=flags)
    address = ctypes.addressof(ctypes.c_char.from_buffer(room))
    original = emu.Buffer

    def buffer(device, size, dtype, **more):
        # Registers are made in WaveState, memory with a place of its own.
        if sys._getframe(1).f_code.co_name == "run_asm" and dtype == emu.dtypes.uint32 and not more:
            more = {"options": emu.BufferSpec(external_ptr=address)}
        return original(device, size, dtype, **more)

    emu.Buffer, emu.lds_room = buffer, room  # which lives as long as the emulator


def mend(emu, target):
    from tinygrad.renderer.amd import dsl

    amd_emulate_mend.apply(emu, target)
    wrong, count = amd_emulate_mend_checks.wrong_ones(emu, (dsl.v, dsl.src), ARCHITECTURES[target], target)
    if wrong:
        raise RuntimeError(f"mended, {', '.join(wrong)} still give other numbers than numpy")
    print(f"{target}: {count} mended instructions are right", file=sys.stderr, flush=True)


def prepare_emulator(options, folder, target):
    """The emulator compiles each instruction for the machine's own CPU, as its model says; where the system hides some
    of that CPU (SVE), such code dies. So its compiler is told the plain architecture, and its cache is our own."""
    compiler = os.path.join(folder, "clang")
    plain = {"aarch64": "-mcpu=generic", "x86_64": "-march=x86-64-v3"}.get(platform.machine(), "")
    with open(compiler, "w") as file:
        file.write(f'#!/bin/sh\nexec {os.environ.get("CC", "clang")} "$@" {plain}\n')
    os.chmod(compiler, 0o755)
    os.environ["CC"] = compiler
    os.environ["CACHEDB"] = os.path.abspath(os.path.join(options.build, "amd_emulator_cache.db"))
    sys.path.insert(0, options.emulator)
    from test.mockgpu.amd import emu
    from tinygrad.renderer.amd import decode_inst

    give_lds_room(emu)
    if options.mend:
        mend(emu, target)
    return emu.run_asm, decode_inst


def cases_of(target):
    wave = WAVES[ARCHITECTURES[target]]
    yield from cases.all_cases(wave, UNITS[target])
    yield from norm_cases.all_cases(wave)
    yield from tensor_cases.all_cases()
    yield from weight_cases.all_cases(wave)


def run_target(target, options, seed, answers):
    """In a process of its own: a read outside the arrays ends it, and the last line says where."""
    feed = open_feed(options)
    with tempfile.TemporaryDirectory() as folder:
        device = Device(target, feed, prepare_emulator(options, folder, target), folder, options.mend)
        for case in cases_of(target):
            if options.kernels and not any(part in case.kernel for part in options.kernels):
                continue
            answers.put(("begin", case.kernel, case.label))
            device.memory, device.ran = Memory(), []
            started = time.monotonic()
            try:
                error = case.run(device, np.random.default_rng([seed, cases.stable_hash(case.label)]))
                if case.kernel not in device.ran:
                    raise AssertionError(f"the plan chose {device.ran} instead")
                status, text = ("right", "") if error <= 1 else ("wrong", case.label)
                if status == "wrong" and (suspects := device.suspects()):
                    status, text = "cannot", f"the emulator executes {', '.join(suspects)} wrongly"
            except (NotRunnable, cases.NotJudged) as reason:
                status, error, text = "cannot", 0.0, f"{reason} (in {device.ran[-1]})" if device.ran else str(reason)
            except Refused as refusal:
                status, error, text = "cannot", 0.0, str(refusal)
            except Exception:
                status, error, text = "wrong", float("inf"), f"{case.label}: {traceback.format_exc(limit=-2)}"
            answers.put(("end", case.kernel, status, error, text, time.monotonic() - started))
        if not options.kernels:
            answers.put(("kernels", list(device.families)))
    answers.put(("done",))


class Row:
    def __init__(self):
        self.cases, self.error, self.seconds, self.wrong, self.cannot = 0, 0.0, 0.0, [], []

    def add(self, status, error, text, seconds):
        self.cases += status != "cannot"
        self.seconds += seconds
        if status == "cannot":
            self.cannot.append(text)
        else:
            self.error = max(self.error, error)
        if status == "wrong":
            self.wrong.append(text)


def follow(process, answers, target):
    """Rows of one target's process; one that dies leaves a wrong row for the case it was in."""
    rows, known, current = collections.defaultdict(Row), [], None
    while True:
        try:
            message = answers.get(timeout=1)
        except Exception:
            if process.is_alive():
                continue
            kernel, label = current or ("none", "between cases")
            rows[kernel].add("wrong", float("inf"), f"{label}: the process ended with {process.exitcode}", 0)
            return rows, known
        if message[0] == "begin":
            current = message[1:]
        elif message[0] == "end":
            rows[message[1]].add(*message[2:])
            print(f"{target} {current[1]}: {message[2]} {message[3]:.3g} {message[4]}", file=sys.stderr, flush=True)
            current = None
        elif message[0] == "kernels":
            known = message[1]
        else:
            process.join()
            return rows, known


def print_table(target, rows, known, only_some):
    print(f"\n## {target}\n\n| kernel | cases | largest error / allowed | result |\n|---|---|---|---|")
    for kernel in sorted(rows):
        row = rows[kernel]
        result = "right"
        if row.wrong:
            result = "**wrong**: " + row.wrong[0].replace("\n", " ")
        elif row.cannot:
            result = f"not run: {row.cannot[0]}" if row.cases == 0 else f"{len(row.cannot)} not run: {row.cannot[0]}"
        print(f"| `{kernel}` | {row.cases} | {row.error:.2f} | {result} |")
    without = [] if only_some else sorted(set(known) - set(rows))
    right = sum(1 for row in rows.values() if row.cases and not row.wrong)
    wrong = sum(1 for row in rows.values() if row.wrong)
    print(f"\n{right} kernels right, {wrong} wrong, {sum(1 for row in rows.values() if not row.cases)} not run, "
          f"{sum(row.cases for row in rows.values())} cases.")
    if without:
        print(f"Without a case: {', '.join(without)}.")
    return wrong, len(without)


def exit_code(wrong, without, allow_missing):
    """Of all targets: how many kernels are wrong, and how many have no case."""
    return 1 if wrong or (without and not allow_missing) else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--emulator", required=True, help="checkout of github.com/tinygrad/tinygrad")
    parser.add_argument("--mend", action="store_true", help="correct what the emulator executes wrongly")
    parser.add_argument("--build", default="build/cpu-release", help="build folder with kpt_emulation_feed")
    parser.add_argument("--targets", default="gfx942,gfx950,gfx1100,gfx1200")
    parser.add_argument("--kernels", type=lambda text: text.split(","), help="parts of kernels' names: only these")
    parser.add_argument("--allow-missing", action="store_true", help="kernels without a case are no failure")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 31))
    options = parser.parse_args()
    if not os.path.isfile(os.path.join(options.emulator, "test", "mockgpu", "amd", "emu.py")):
        parser.error(f"{options.emulator} is no checkout of tinygrad: test/mockgpu/amd/emu.py is missing")
    if not os.path.isfile(os.path.join(options.build, "test_bin", "kpt_emulation_feed")):
        parser.error(f"{options.build} has no kpt_emulation_feed: build that target")
    unknown = [target for target in options.targets.split(",") if target not in ARCHITECTURES]
    if unknown:
        parser.error(f"the emulator does not know {', '.join(unknown)}; it knows {', '.join(ARCHITECTURES)}")
    version = open_feed(options).ask("compiler")[3:]
    emulator = f"mended, for {amd_emulate_mend.COMMIT}" if options.mend else "as it is"
    print(f"compiler: {version}\nnumpy: {np.__version__}\nemulator: {emulator}\nseed: {options.seed}", flush=True)
    context = multiprocessing.get_context("spawn")
    wrong = without = 0
    for target in options.targets.split(","):
        answers = context.Queue()
        process = context.Process(target=run_target, args=(target, options, options.seed, answers))
        process.start()
        of_target = print_table(target, *follow(process, answers, target), bool(options.kernels))
        wrong, without = wrong + of_target[0], without + of_target[1]
        sys.stdout.flush()
    return exit_code(wrong, without, options.allow_missing)


if __name__ == "__main__":
    sys.exit(main())
