"""Mends of the emulator that amd_emulate.py runs: what it is known to execute otherwise than AMD's manuals say.

Made for github.com/tinygrad/tinygrad at a9069c177a9d, test/mockgpu/amd/emu.py, and applied to the loaded module, in
this process alone: the checkout is not changed, and nothing of it is here. A handler of the emulator makes of one
instruction a graph of its operations; ours do that for the instructions below and leave all others to the emulator's.

  whole_registers  16-bit instructions of CDNA: all 256 registers are whole ones (RDNA3 alone has upper halves)
  sdwa_modifiers   abs and neg of operands in SDWA form
  lds_halves       ds_load_*_d16 and ds_read_*_d16 keep the other half of their register
  wmma             v_wmma_*_16x16x16_*: constants as sums, and bytes of FP8
  mfma_bytes       v_mfma_i32_16x16x*_i8
  fnuz             FP8 of gfx942: bias 8 and 16, one NaN (0x80), no minus zero; numbers to codes are refused
"""

import itertools
import re

COMMIT = "a9069c177a9d"
NEEDED = ("AddrSpace", "UOp", "VCC_LO", "_FUNCS", "_INST_HANDLERS", "_apply_src_mods", "_c", "_compile_mem_op",
          "_compile_mfma", "_compile_sdwa", "_compile_wmma", "_lane_active", "_load_dpp16_src0", "_op_name",
          "_sdwa_select", "dtypes", "get_pcode", "ir3", "ir4", "irc", "parse_pcode")


class Other(Exception):
    """The emulator is not the one that the mends are for."""


def whole_registers(emu):
    handlers, dtypes = emu._INST_HANDLERS, emu.dtypes

    def one_lane(inst, ctx, lane, bits, old):
        """The operands of one lane, and the place of the first where it has one."""
        form, literal = type(inst), ctx.optional_field(inst, "literal")
        mods = [tuple(int(getattr(inst, f"src{i}_{kind}", 0) or 0) for kind in ("abs", "neg")) for i in (0, 1)]
        if hasattr(form, "dpp"):
            at, first = None, emu._load_dpp16_src0(ctx, inst, lane, old)
            first = emu._apply_src_mods(first, 0, *mods[0], bits["s0"])
        else:
            at = ctx.inst_field(form.src0)
            first = ctx.rsrc_dyn(at, lane, bits["s0"], literal)
        operands = {"S0": first, "D0": old}
        if hasattr(form, "vsrc1"):
            operands["S1"] = ctx.rvgpr_dyn(ctx.inst_field(form.vsrc1), lane)
            if hasattr(form, "dpp"):
                operands["S1"] = emu._apply_src_mods(operands["S1"], 0, *mods[1], bits["s1"])
        if literal is not None:
            operands["SIMM32"] = literal
        return operands, at

    def of_values(original):
        def handler(inst, ctx):
            bits = inst.canonical_op_bits
            if 16 not in (bits["d"], bits["s0"]):
                return original(inst, ctx)
            lane, on, result = ctx.range(), ctx.rexec(), ctx.inst_field(type(inst).vdst)
            operands, at = one_lane(inst, ctx, lane, bits, ctx.rvgpr_dyn(result, lane))
            return ctx.compile_vop_pcode(inst.op, operands, lane, result, on, src0_off=at)

        return handler

    def of_comparisons(original):
        def handler(inst, ctx):
            bits = inst.canonical_op_bits
            if bits["s0"] != 16 or "CMPX" in emu._op_name(inst):
                return original(inst, ctx)
            text = emu.get_pcode(inst.op)

            def bit(lane):
                operands, _ = one_lane(inst, ctx, lane, bits, emu.UOp.const(0, dtypes.uint64))
                for place, value in emu.parse_pcode(text, operands | {"laneId": lane})[1]:
                    if "[laneId]" in place:
                        return value.cast(dtypes.uint32)
                raise NotImplementedError(f"{emu._op_name(inst)} sets no bit of a mask")

            mask = ctx.unroll_lanes(bit, ctx.rexec())
            return emu.UOp.sink(*ctx.wmask(emu._c(emu.VCC_LO.offset), mask), *ctx.inc_pc())

        return handler

    for name in ("VOP1", "VOP1_DPP16", "VOP2", "VOP2_DPP16"):
        form = getattr(emu.irc, name)
        handlers[form] = of_values(handlers[form])
    handlers[emu.irc.VOPC] = of_comparisons(handlers[emu.irc.VOPC])


def sdwa_modifiers(emu):
    handler, select = emu._compile_sdwa, emu._sdwa_select

    def mended(inst, ctx):
        turns = itertools.cycle(("0", "1") if hasattr(type(inst), "vsrc1") else ("0",))

        def selected(value, part, extended):
            value, own = select(value, part, extended), next(turns)
            sign = 1 << (inst.canonical_op_bits[f"s{own}"] - 1)
            if getattr(inst, f"src{own}_abs"):
                value = value & emu._c(sign - 1)
            return value ^ emu._c(sign) if getattr(inst, f"src{own}_neg") else value

        emu._sdwa_select = selected
        try:
            return handler(inst, ctx)
        finally:
            emu._sdwa_select = select

    for form, own in list(emu._INST_HANDLERS.items()):
        if own is handler:
            emu._INST_HANDLERS[form] = mended


def lds_halves(emu):
    handler, c = emu._compile_mem_op, emu._c

    def mended(inst, ctx):
        found = re.fullmatch(r"DS_(?:LOAD|READ)_([IU])(8|16)_D16(_HI)?", emu._op_name(inst))
        if not found:
            return handler(inst, ctx)
        form, lane, on = type(inst), ctx.range(), ctx.rexec()
        at = ctx.rvgpr_dyn(ctx.inst_field(form.addr), lane)
        at = at + ctx.inst_field(form.offset0) + (ctx.inst_field(form.offset1) << c(8))
        word = ctx.lds.index((at >> c(2)).valid(emu._lane_active(on, lane))).load()
        half = (word >> ((at & c(3)) * c(8))) & c((1 << int(found[2])) - 1)
        if found[1] == "I" and found[2] == "8":
            half = ((half ^ c(0x80)) - c(0x80)) & c(0xFFFF)
        register = ctx.inst_field(form.vdst)
        old = ctx.rvgpr_dyn(register, lane)
        both = (old & c(0xFFFF)) | (half << c(16)) if found[3] else (old & c(0xFFFF0000)) | half
        return emu.UOp.sink(ctx.wvgpr_dyn(register, lane, both, on).end(lane), *ctx.inc_pc())

    for module in (emu.ir3, emu.ir4, emu.irc):
        emu._INST_HANDLERS[module.DS] = mended


def int32(emu, value):
    return emu.UOp.const(value, emu.dtypes.int)


def signed_byte(emu, byte):
    return (byte.cast(emu.dtypes.int32) ^ int32(emu, 0x80)) - int32(emu, 0x80)


def product(emu, table, sums, left, right, depth, type):
    """sums + Σ table[left + k] · table[right + k]."""
    for k in range(depth):
        a, b = (table.index(start + int32(emu, k)).load() for start in (left, right))
        sums = sums + a.bitcast(type) * b.bitcast(type)
    return sums


def wmma(emu):
    original, dtypes = emu._compile_wmma, emu.dtypes
    kinds = "F16|BF16|IU8|FP8_FP8|FP8_BF8|BF8_FP8|BF8_BF8"

    def mended(inst, ctx):
        found = re.fullmatch(rf"V_WMMA_(F32|I32)_16X16X16_({kinds})", emu._op_name(inst))
        if not found:
            return original(inst, ctx)
        whole, form, newer = found[1] == "I32", type(inst), isinstance(inst, emu.ir4.VOP3P)
        if inst.clmp or inst.neg_hi or (inst.neg and not whole):
            raise NotImplementedError("v_wmma with neg of numbers or clamp")
        types = found[2].lower().split("_") * (1 if "_" in found[2] else 2)
        bits = 16 if "16" in types[0] else 8

        def element(word, place, operand):
            part = (word >> emu._c(place % (32 // bits) * bits)) & emu._c((1 << bits) - 1)
            if not whole:
                return emu._FUNCS[f"{types[operand]}_to_f32"](part).bitcast(dtypes.uint32)
            signed = inst.neg & (1 << operand)
            return signed_byte(emu, part).bitcast(dtypes.uint32) if signed else part

        # A row of either operand is in one lane of RDNA3 (the upper lanes repeat it), in two of RDNA4. Which of its
        # elements are where does not matter: both operands are laid out alike.
        table = emu.UOp.placeholder((512,), dtypes.uint32, slot=0, addrspace=emu.AddrSpace.LOCAL)
        lane, each = ctx.range(32 if newer else 16), 8 if newer else 16
        row = (lane % int32(emu, 16)) * int32(emu, 16) + (lane // int32(emu, 16)) * int32(emu, each)
        stores = []
        for operand, field in enumerate((form.src0, form.src1)):
            register = ctx.inst_field(field) - emu._c(256)
            for place in range(each):
                word = ctx.rvgpr_dyn(register + emu._c(place // (32 // bits)), lane)
                stores.append(table.index(row + int32(emu, 256 * operand + place)).store(element(word, place, operand)))
        read = emu.UOp.group(*stores).end(lane)
        lane, on, table = ctx.range(32), ctx.rexec(), table.after(read)
        result, sums = ctx.inst_field(form.vdst), ctx.inst_field(form.src2)
        type_ = dtypes.int32 if whole else dtypes.float32
        stores, upper, column = [], lane // int32(emu, 16), lane % int32(emu, 16)
        for register in range(8):
            at = (sums >= emu._c(256)).where(sums + emu._c(register), sums)
            m = upper * int32(emu, 8) + int32(emu, register) if newer else upper + int32(emu, 2 * register)
            value = product(emu, table, ctx.rsrc_dyn(at, lane, 32).bitcast(type_), m * int32(emu, 16),
                            column * int32(emu, 16) + int32(emu, 256), 16, type_)
            stores.append(ctx.wvgpr_dyn(result + emu._c(register), lane, value.bitcast(dtypes.uint32), on))
        return emu.UOp.sink(read, emu.UOp.group(*stores).end(lane), *ctx.inc_pc())

    emu._compile_wmma = mended


def mfma_bytes(emu):
    original, dtypes = emu._compile_mfma, emu.dtypes

    def mended(inst, ctx):
        found = re.fullmatch(r"V_MFMA_I32_16X16X(16|32|64)_I8", emu._op_name(inst))
        if not found:
            return original(inst, ctx)
        form, depth = type(inst), int(found[1])
        if inst.cbsz or inst.abid or inst.blgp:
            raise NotImplementedError("v_mfma_i32 that repeats parts of an operand")
        # Four lanes hold a row of either operand, a fourth of its elements each.
        table = emu.UOp.placeholder((32 * depth,), dtypes.int32, slot=0, addrspace=emu.AddrSpace.LOCAL)
        lane = ctx.range()
        row = (lane % int32(emu, 16)) * int32(emu, depth) + (lane // int32(emu, 16)) * int32(emu, depth // 4)
        stores = []
        for operand, field in enumerate((form.src0, form.src1)):
            register = ctx.inst_field(field) - emu._c(256)
            words = ctx.raccvgpr_dyn if inst.acc & (1 << operand) else ctx.rvgpr_dyn
            for place in range(depth // 4):
                byte = (words(register + emu._c(place // 4), lane) >> emu._c(place % 4 * 8)) & emu._c(0xFF)
                at = row + int32(emu, 16 * depth * operand + place)
                stores.append(table.index(at).store(signed_byte(emu, byte)))
        read = emu.UOp.group(*stores).end(lane)
        lane, on, table = ctx.range(), ctx.rexec(), table.after(read)
        result, sums = ctx.inst_field(form.vdst), ctx.inst_field(form.src2)
        words, write = (ctx.raccvgpr_dyn, ctx.waccvgpr_dyn) if inst.acc_cd else (ctx.rvgpr_dyn, ctx.wvgpr_dyn)
        in_registers, stores = sums >= emu._c(256), []
        constant = ctx.rsgpr_dyn(sums, in_registers.ne(True))
        for register in range(4):
            value = in_registers.where(words(sums - emu._c(256 - register), lane, in_registers), constant)
            m = (lane // int32(emu, 16)) * int32(emu, 4) + int32(emu, register)
            value = product(emu, table, value.bitcast(dtypes.int32), m * int32(emu, depth),
                            (lane % int32(emu, 16)) * int32(emu, depth) + int32(emu, 16 * depth), depth, dtypes.int32)
            stores.append(write(result + emu._c(register), lane, value.bitcast(dtypes.uint32), on))
        return emu.UOp.sink(read, emu.UOp.group(*stores).end(lane), *ctx.inc_pc())

    emu._compile_mfma = mended


def fnuz(emu):
    dtypes, c = emu.dtypes, emu._c

    def number(mantissa_bits, bias):
        def convert(code):
            code = code.cast(dtypes.uint32) & c(0xFF)
            sign, size = (code >> c(7)) << c(31), code & c(0x7F)
            mantissa = code & c((1 << mantissa_bits) - 1)
            step = emu.UOp.const(2.0 ** (1 - bias - mantissa_bits), dtypes.float32)
            small = (mantissa.cast(dtypes.float32) * step).bitcast(dtypes.uint32)
            normal = (size << c(23 - mantissa_bits)) + c((127 - bias) << 23)
            bits = sign | (size < c(1 << mantissa_bits)).where(small, normal)
            return code.eq(c(0x80)).where(c(0x7FC00000), bits).bitcast(dtypes.float32)

        return convert

    def refuse(_):
        raise NotImplementedError("numbers become FP8 as OCP in this emulator, as FNUZ on gfx942")

    emu._FUNCS["fp8_to_f32"], emu._FUNCS["bf8_to_f32"] = number(3, 8), number(2, 16)
    emu._FUNCS["f32_to_fp8"] = emu._FUNCS["f32_to_bf8"] = refuse


def apply(emu, target):
    missing = [name for name in NEEDED if not hasattr(emu, name)]
    if missing:
        raise Other(f"the mends are for tinygrad at {COMMIT}; this checkout has no {', '.join(missing)}")
    for mend in (whole_registers, sdwa_modifiers, lds_halves, wmma, mfma_bytes):
        mend(emu)
    if target == "gfx942":
        fnuz(emu)
