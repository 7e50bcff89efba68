#!/usr/bin/env python3
"""Writes python_sizes.txt: srepr, the values of a, b and c, and what Python says, separated by tabs.

make_python_sizes.py [SEED] > python_sizes.txt"""

import math
import random
import sys
from fractions import Fraction

LIMIT = 2**63


def checked(value):
    """Python's integers have no end; ours have, so such cases are not written."""
    if isinstance(value, int) and not -LIMIT <= value < LIMIT:
        raise OverflowError
    return value


def power(base, exponent):
    if not 0 <= exponent < 200:
        raise ValueError
    return base**exponent


def integer_heads():
    """name: (number of operands, Python's meaning)"""
    return {
        "Add": (3, lambda x, y, z: checked(checked(x + y) + z)),
        "Mul": (2, lambda x, y: x * y),
        "FloorDiv": (2, lambda x, y: x // y),
        "CleanDiv": (2, lambda x, y: x // y),
        "PythonMod": (2, lambda x, y: x % y),
        "Mod": (2, lambda x, y: x % y),
        "CeilDiv": (2, lambda x, y: -(checked(-x) // y)),
        "Max": (3, max),
        "Min": (2, min),
        "ModularIndexing": (3, lambda x, y, z: checked(x // y) % z),
        "LShift": (2, lambda x, y: x << y if y < 200 else LIMIT),
        "RShift": (2, lambda x, y: x >> y),
        "PowByNatural": (2, power),
        "Identity": (1, lambda x: x),
    }


def float_heads():
    return {
        "FloorToInt": math.floor,
        "CeilToInt": math.ceil,
        "TruncToInt": math.trunc,
        "RoundToInt": round,
    }


def relations():
    return {
        "Equality": lambda x, y: x == y,
        "Unequality": lambda x, y: x != y,
        "StrictLessThan": lambda x, y: x < y,
        "LessThan": lambda x, y: x <= y,
        "StrictGreaterThan": lambda x, y: x > y,
        "GreaterThan": lambda x, y: x >= y,
    }


def make_truth(rand, depth):
    kind = rand.choice(["And", "Or", "Not"]) if depth > 1 and rand.random() < 0.4 else "relation"
    if kind == "Not":
        text, run = make_truth(rand, depth - 1)
        return f"Not({text})", lambda env: not run(env)
    if kind != "relation":
        (left, run_left), (right, run_right) = make_truth(rand, depth - 1), make_truth(rand, depth - 1)
        if kind == "And":
            return f"And({left}, {right})", lambda env: run_left(env) and run_right(env)
        return f"Or({left}, {right})", lambda env: run_left(env) or run_right(env)
    name, meaning = rand.choice(list(relations().items()))
    (left, run_left), (right, run_right) = make_integer(rand, depth - 1), make_integer(rand, depth - 1)
    return f"{name}({left}, {right})", lambda env: meaning(run_left(env), run_right(env))


def make_integer(rand, depth):
    """A text and a function of the values."""
    if depth <= 0 or rand.random() < 0.15:
        if rand.random() < 0.6:
            name = rand.choice("abc")
            return f"Symbol('{name}', integer=True)", lambda env: env[name]
        number = rand.choice([0, 1, -1, 2, 3, -3, 7, rand.randint(-50, 50)])
        return f"Integer({number})", lambda env: number
    choice = rand.random()
    if choice < 0.1:
        condition, run_condition = make_truth(rand, depth - 1)
        (yes, run_yes), (no, run_no) = make_integer(rand, depth - 1), make_integer(rand, depth - 1)
        return f"Where({condition}, {yes}, {no})", lambda env: run_yes(env) if run_condition(env) else run_no(env)
    if choice < 0.25:
        name, meaning = rand.choice(list(float_heads().items()))
        (left, run_left), (right, run_right) = make_integer(rand, depth - 1), make_integer(rand, depth - 1)
        return f"{name}(IntTrueDiv({left}, {right}))", lambda env: checked(meaning(run_left(env) / run_right(env)))
    if choice < 0.32:
        divisor = rand.randint(2, 9)
        name, meaning = rand.choice([("floor", math.floor), ("ceiling", math.ceil)])
        text, run = make_integer(rand, depth - 1)
        return (f"{name}(Add(Mul(Rational(1, {divisor}), {text}), Rational(1, 2)))",
                lambda env: meaning(Fraction(checked(2 * divisor * run(env)), 2 * divisor**2) + Fraction(1, 2)))
    name, (count, meaning) = rand.choice(list(integer_heads().items()))
    parts = [make_integer(rand, depth - 1) for _ in range(count)]
    return (f"{name}({', '.join(text for text, _ in parts)})",
            lambda env: checked(meaning(*[run(env) for _, run in parts])))


def show(text, values, run):
    try:
        result = run(values)
    except ZeroDivisionError:
        result = "error"
    except (OverflowError, ValueError):  # beyond 64 bits, or a negative count or exponent
        return False
    print(text, values["a"], values["b"], values["c"], result, sep="\t")
    return True


def main():
    rand = random.Random(int(sys.argv[1]) if len(sys.argv) > 1 else 20261115)
    a, b = "Symbol('a', integer=True)", "Symbol('b', integer=True)"
    for x in (-LIMIT, -8, -7, -1, 0, 1, 7, 8, LIMIT - 1):
        for y in (-LIMIT, -3, -2, -1, 0, 1, 2, 3, LIMIT - 1):
            values = {"a": x, "b": y, "c": 0}
            show(f"FloorDiv({a}, {b})", values, lambda env: checked(env["a"] // env["b"]))
            show(f"PythonMod({a}, {b})", values, lambda env: env["a"] % env["b"])
            show(f"RoundToInt(IntTrueDiv({a}, {b}))", values, lambda env: checked(round(env["a"] / env["b"])))
    written = 0
    while written < 250:
        text, run = make_integer(rand, rand.randint(1, 3))
        values = {name: rand.choice([rand.randint(-9, 9), rand.randint(1, 4096)]) for name in "abc"}
        if len(text) < 400 and show(text, values, run):
            written += 1


if __name__ == "__main__":
    main()
