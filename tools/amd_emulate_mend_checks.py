"""Checks of amd_emulate_mend.py: instructions of each mend, executed once, against numpy.

Kernels that are right with a mend show the mend only together with the kernel; here an instruction stands alone. Run
by amd_emulate.py --mend before the first case.
"""

import ctypes

import numpy as np

from amd_emulate_cases import fp8_values


class Machine:
    """One wave that executes one instruction."""

    def __init__(self, emu, arch, lanes, registers):
        self.emu, self.arch, self.lanes = emu, arch, lanes
        self.v, self.sources = registers

    def run(self, inst, values):
        """The vector registers after it, and VCC. `values`: what they hold before; words of LDS count from 1000."""
        code = ctypes.create_string_buffer(inst.to_bytes() + bytes(64))
        state = self.emu.WaveState(self.lanes, self.lanes)
        state.pc = ctypes.addressof(code)
        vectors = np.frombuffer(state._vgpr_mv, np.uint32).reshape(256, self.lanes)
        for register, content in values.items():
            vectors[register] = content
        lds = (ctypes.c_uint32 * 16384)(*range(1000, 17384))
        places = [state.sgpr_buf._buf.va_addr, state.vgpr_buf._buf.va_addr, 0, ctypes.addressof(lds), 0,
                  state.accvgpr_buf._buf.va_addr]
        (program, runtime), _ = self.emu._decode_at(state.pc, self.arch)
        with self.emu._MXCSRContext():
            runtime.fxn(*[ctypes.c_uint64(places[index]) for index in program.arg.globals])
        return vectors.copy(), state._read_sgpr(106) | state._read_sgpr(107) << 32

    def sums(self, count, constant):
        """Registers, or the constant 0, which is encoded as source 128."""
        return self.sources[128 : 128 + count - 1] if constant else self.v[40 : 40 + count - 1]


def operands(random, kind):
    """Codes of two matrices of 16 rows and 64 columns, and their numbers."""
    shape = (2, 16, 64)
    if kind == "i8":
        codes = random.integers(-128, 128, shape).astype(np.int8)
        return codes, codes.astype(np.float64)
    if kind.startswith("float8"):
        numbers = fp8_values(kind)
        codes = random.choice(np.flatnonzero(np.isfinite(numbers)).astype(np.uint8), shape)
        return codes, numbers[codes]
    numbers = random.normal(0, 1, shape).astype(np.float16 if kind == "f16" else np.float32)
    if kind == "f16":
        return numbers, numbers.astype(np.float64)
    codes = (numbers.view(np.uint32) >> 16).astype(np.uint16)
    return codes, (codes.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def is_product(machine, random, make, kind, depth, lanes_of_row, place):
    """Whether `make(first registers of A, B and their number, constant)` multiplies; place(m, n): register and lane."""
    whole = kind == "i8"
    for constant in (False, True):
        codes, numbers = operands(random, kind)
        codes, numbers = codes[:, :, :depth], numbers[:, :, :depth]
        added = random.integers(-9, 9, (16, 16)).astype(np.int32 if whole else np.float32)
        each = depth // lanes_of_row
        count = each * codes.itemsize // 4
        values = {register: np.zeros(machine.lanes, np.uint32) for register in range(8, 56)}
        for lane in range(machine.lanes):
            first = lane // 16 % lanes_of_row * each
            for base, matrix in ((8, codes[0]), (24, codes[1])):
                words = np.ascontiguousarray(matrix[lane % 16, first : first + each]).view(np.uint32)
                for register in range(count):
                    values[base + register][lane] = words[register]
        places = {(m, n): place(m, n) for m in range(16) for n in range(16)}
        for (m, n), (register, lane) in places.items():
            values[40 + register][lane] = added[m, n : n + 1].view(np.uint32)[0]
        values[128] = np.full(machine.lanes, 0x41000000, np.uint32)  # where the constant 0 was read before
        after = machine.run(make(count, constant), values)[0].view(added.dtype)
        wanted = numbers[0] @ numbers[1].T + (0 if constant else added)
        size = np.abs(numbers[0]) @ np.abs(numbers[1]).T + 10
        for (m, n), (register, lane) in places.items():
            if not abs(after[200 + register, lane] - wanted[m, n]) <= (0 if whole else 2e-6 * size[m, n]):
                return False
    return True


def cdna_checks(machine, random, target):
    ir, v = machine.emu.irc, machine.v
    fp8 = "float8_e4m3fnuz" if target == "gfx942" else "float8_e4m3fn"
    for name, kind, depth in (("I32_16X16X32_I8", "i8", 32), ("I32_16X16X64_I8", "i8", 64),
                              ("F32_16X16X32_FP8_FP8", fp8, 32)):
        op = ir.VOP3POp[f"V_MFMA_{name}"]

        def make(count, constant, op=op):
            return ir.VOP3P_MFMA(op, vdst=v[200:203], src0=v[8 : 8 + count - 1], src1=v[24 : 24 + count - 1],
                                 src2=machine.sums(4, constant))

        yield op.name, is_product(machine, random, make, kind, depth, 4, lambda m, n: (m % 4, 16 * (m // 4) + n))
    numbers, same = fp8_values(fp8).astype(np.float32), True
    for first in range(0, 256, 64):
        after, _ = machine.run(ir.VOP1(ir.VOP1Op.V_CVT_F32_FP8_E32, vdst=v[5], src0=v[6]), {6: np.arange(64) + first})
        same &= np.array_equal(after[5].view(np.float32), numbers[first : first + 64], equal_nan=True)
    yield "V_CVT_F32_FP8_E32", same
    half, other = random.normal(0, 1, (2, 64)).astype(np.float16)
    held = {150: half.view(np.uint16), 151: other.view(np.uint16), 22: 0x3C003C00, 23: 0x3C003C00}
    after, _ = machine.run(ir.VOP1(ir.VOP1Op.V_CVT_F32_F16_E32, vdst=v[130], src0=v[150]), held)
    yield "V_CVT_F32_F16_E32", np.array_equal(after[130].view(np.float32), half.astype(np.float32))
    after, _ = machine.run(ir.VOP2(ir.VOP2Op.V_ADD_F16_E32, vdst=v[160], src0=v[150], vsrc1=v[151]), held | {32: 7})
    yield "V_ADD_F16_E32", np.array_equal(after[160], (half + other).view(np.uint16)) and np.all(after[32] == 7)
    _, mask = machine.run(ir.VOPC(ir.VOPCOp.V_CMP_LT_F16_E32, src0=v[150], vsrc1=v[151]), held)
    yield "V_CMP_LT_F16_E32", mask == sum(1 << lane for lane in range(64) if half[lane] < other[lane])
    after, _ = machine.run(ir.VOP1_SDWA(ir.VOP1Op.V_CVT_F32_F16_E32, vdst=v[7], src0=machine.sources[249],
                                        vsrc0=v[150], src0_abs=1, src0_neg=1, src0_sel=5, dst_sel=6),
                           {150: half.view(np.uint16).astype(np.uint32) << 16})
    yield "V_CVT_F32_F16 in SDWA form", np.array_equal(after[7].view(np.float32), -np.abs(half).astype(np.float32))


def rdna_checks(machine, random, target):
    newer, v = target.startswith("gfx12"), machine.v
    ir = machine.emu.ir4 if newer else machine.emu.ir3
    kinds = {"F16": "f16", "BF16": "bf16", "IU8": "i8"} | ({"FP8_FP8": "float8_e4m3fn"} if newer else {})
    for name, kind in kinds.items():
        op = ir.VOP3POp[f"V_WMMA_{'I32' if kind == 'i8' else 'F32'}_16X16X16_{name}"]

        def make(count, constant, op=op, kind=kind):
            return ir.VOP3P(op, vdst=v[200:207], src0=v[8 : 8 + count - 1], src1=v[24 : 24 + count - 1],
                            src2=machine.sums(8, constant), neg=3 if kind == "i8" else 0)

        def place(m, n):
            return (m % 8, n + 16 * (m // 8)) if newer else (m // 2, n + 16 * (m % 2))

        yield op.name, is_product(machine, random, make, kind, 16, 2 if newer else 1, place)
    lds = np.arange(1000, 1064, dtype=np.uint32)
    for name, type in (("U16_D16", np.uint16), ("U16_D16_HI", np.uint16), ("U8_D16", np.uint8), ("I8_D16_HI", np.int8)):
        at = np.arange(32, dtype=np.uint32) * np.dtype(type).itemsize
        inst = ir.DS(ir.DSOp[f"DS_LOAD_{name}"], vdst=v[9], addr=v[8], data0=v[0], data1=v[0], offset0=4, offset1=0)
        after, _ = machine.run(inst, {8: at, 9: np.full(32, 0xAAAABBBB, np.uint32)})
        found = lds.view(type)[(at + 4) // np.dtype(type).itemsize]
        part = (found.astype(np.int64) & 0xFFFF).astype(np.uint32)
        wanted = (part << 16) | 0xBBBB if name.endswith("HI") else part | np.uint32(0xAAAA0000)
        yield f"DS_LOAD_{name}", np.array_equal(after[9], wanted)


def wrong_ones(emu, registers, arch, target):
    """Names of mended instructions that give other numbers than numpy, and how many were executed."""
    machine = Machine(emu, arch, 64 if arch == "cdna" else 32, registers)
    checks = cdna_checks if arch == "cdna" else rdna_checks
    results = list(checks(machine, np.random.default_rng(11), target))
    return [name for name, right in results if not right], len(results)
