#!/usr/bin/env python3
"""Other runtimes on exported models, one process for one runtime: obeys commands on standard input, a JSON line each.

  peer_models.py --runtime onnxruntime --threads 2 --work build/compare/onnx

  load FILE CASES_FILE   prepares the model for the inputs of case 0: {"load_seconds": …}
  run N                  {"times_ms": […]} of N runs
  outputs FILE           writes what the last run gave as safetensors, by position: {"outputs": 2}
  quit

  peer_models.py --runtime compile --threads 2 --first-answer FILE CASES_FILE
      loads, runs once, prints one line when the answer is there, and ends

Runtimes: eager, compile, compile_best (max-autotune; on the CPU with weights frozen into the code), onnxruntime,
onnxruntime_int8 (its dynamic quantization), openvino (fp32); with --device cuda those of PyTorch alone, and also
compile_graphs (its mode reduce-overhead, which captures CUDA graphs). There, inputs come from the host's memory and
answers go there in every run. aoti is AOTInductor; its answer to load also says how long a package takes that exists
("package_load_seconds") and whether it was compiled now ("compiled"). A model that writes buffers keeps them from run
to run. ONNX files and packages are made once from the exported program and kept in --work.
"""

import argparse
import json
import os
import sys
import time
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "tools"))
import blas_setting  # noqa: E402, F401  before torch

RUNTIMES = ("eager", "compile", "compile_graphs", "compile_best", "aoti", "onnxruntime", "onnxruntime_int8",
            "openvino")


def read_inputs(cases_file):
    from safetensors.torch import load_file
    prefix = "case0/input/"
    inputs = {key[len(prefix):]: value for key, value in load_file(cases_file).items() if key.startswith(prefix)}
    if not inputs:
        raise ValueError(f"{cases_file} holds no inputs of case 0")
    return inputs


def register_outputs():
    """Programs of Hugging Face models return their dataclasses, which must be registered before loading."""
    try:
        import transformers.models.clip.modeling_clip  # noqa: F401
        import transformers.modeling_outputs  # noqa: F401
    except ImportError:
        pass


def load_program(path):
    import torch
    register_outputs()
    return torch.export.load(path)


def load_program_to(path, device):
    program = load_program(path)
    if device == "cpu":
        return program
    from torch.export.passes import move_to_device_pass
    return move_to_device_pass(program, device)


class TorchRun:
    """Eager, or compiled by Inductor."""

    notes = {}

    def __init__(self, runtime, threads, path, cases_file, work, device):
        import torch
        torch.set_num_threads(threads)
        self.inputs = read_inputs(cases_file)
        self.device = device
        self.guard = torch.no_grad  # freezing asks for it; inference_mode gains nothing measurable beside it
        self.prepare(runtime, path, work)
        self.run()

    def prepare(self, runtime, path, work):
        import torch
        import torch._inductor.config
        device = self.device
        self.module = load_program_to(path, device).module()
        if runtime == "compile":
            self.module = torch.compile(self.module)
        elif runtime == "compile_graphs":
            self.module = torch.compile(self.module, mode="reduce-overhead")
        elif runtime == "compile_best" and device != "cpu":
            self.module = torch.compile(self.module, mode="max-autotune")
        elif runtime == "compile_best":
            torch._inductor.config.freezing = True
            self.module = torch.compile(self.module, mode="max-autotune-no-cudagraphs")

    def run(self):
        import torch
        with self.guard():
            if self.device == "cpu":
                self.answer = self.module(**self.inputs)
                return
            answer = self.module(**{name: value.to(self.device) for name, value in self.inputs.items()})
            self.answer = [leaf.cpu() for leaf in torch.utils._pytree.tree_leaves(answer)
                           if isinstance(leaf, torch.Tensor)]

    def outputs(self):
        import torch
        return [leaf.detach().contiguous().clone() for leaf in torch.utils._pytree.tree_leaves(self.answer)
                if isinstance(leaf, torch.Tensor)]


def is_newer(made, source):
    """Whether a file exists and was made after the one it is made from."""
    return made.exists() and made.stat().st_mtime_ns > source.stat().st_mtime_ns


def package_name(path, device, torch_version):
    """A package holds code of one version of torch for one device."""
    return f"{path.stem}.{device.replace(':', '_')}.torch-{torch_version}.aoti.pt2"


class AotInductorRun(TorchRun):
    """A package that AOTInductor made: compiled once, then only loaded."""

    def prepare(self, runtime, path, work):
        import torch
        work.mkdir(parents=True, exist_ok=True)
        package = work / package_name(path, self.device, torch.__version__)
        compiled = not is_newer(package, path)
        if compiled:
            part = work / ("part_" + package.name)
            with torch.no_grad():
                torch._inductor.aoti_compile_and_package(load_program_to(path, self.device), package_path=str(part))
            os.replace(part, package)
        start = time.perf_counter()
        index = torch.device(self.device).index
        loaded = torch._inductor.aoti_load_package(str(package), device_index=-1 if index is None else index)
        # Called directly it would read its call specification anew in every run, and ask for the classes of outputs.
        order = self.input_order(loaded.loader)
        self.module = lambda **inputs: loaded.loader.boxed_run([inputs[name] for name in order])
        self.run()
        self.notes = {"compiled": compiled, "package_load_seconds": time.perf_counter() - start}

    def input_order(self, loader):
        import torch
        from torch.export._tree_utils import reorder_kwargs
        return list(reorder_kwargs(self.inputs, torch.utils._pytree.treespec_loads(loader.get_call_spec()[0])))


def onnx_file(path, work):
    """The ONNX form of an exported program, made once for each export."""
    import torch
    work.mkdir(parents=True, exist_ok=True)
    target = work / (path.stem + ".onnx")
    if not is_newer(target, path):
        program = load_program(path)
        with torch.no_grad():
            made = torch.onnx.export(program, (), dynamo=True, verbose=False)
        # One file holds at most 2 GiB; larger weights lie beside it under a name that the file holds.
        large = path.stat().st_size > 1_900_000_000
        part = work / "parts" / target.name
        part.parent.mkdir(exist_ok=True)
        made.save(str(part), external_data=large)
        for file in part.parent.glob(target.name + "*"):
            if file != part:
                os.replace(file, work / file.name)
        os.replace(part, target)
    return target


def quantized_file(path, work):
    """Dynamic INT8 quantization as ONNX Runtime's documentation recommends it: pre-processed, then quantized."""
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from onnxruntime.quantization.shape_inference import quant_pre_process
    target = work / (path.stem + ".int8.onnx")
    if is_newer(target, path):
        return target
    large = path.stat().st_size > 1_900_000_000
    bare, prepared = work / (path.stem + ".bare.onnx"), work / (path.stem + ".prepared.onnx")
    # Shapes that the exporter noted inside the graph contradict ONNX's own inference for some models.
    model = onnx.load(str(onnx_file(path, work)))
    del model.graph.value_info[:]
    onnx.save(model, str(bare), save_as_external_data=large)
    del model
    try:
        quant_pre_process(str(bare), str(prepared), skip_symbolic_shape=True, save_as_external_data=large)
    except Exception as error:  # fails on some graphs; quantizing works without it
        print(f"pre-processing failed ({type(error).__name__}: {error}), quantized without", file=sys.stderr)
        prepared = bare
    quantize_dynamic(str(prepared), str(target) + ".part", weight_type=QuantType.QInt8, per_channel=True,
                     use_external_data_format=large)
    os.replace(str(target) + ".part", target)
    for file in {bare, prepared}:
        file.unlink()
    return target


class OnnxRuntimeRun:
    def __init__(self, runtime, threads, path, cases_file, work, device):
        import onnxruntime
        file = quantized_file(path, work) if runtime == "onnxruntime_int8" else onnx_file(path, work)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        self.session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
        given = {name: value.numpy() for name, value in read_inputs(cases_file).items()}
        self.inputs = {entry.name: given[entry.name] for entry in self.session.get_inputs()}
        self.run()

    def run(self):
        self.answer = self.session.run(None, self.inputs)

    def outputs(self):
        import torch
        return [torch.from_numpy(array.copy()) for array in self.answer]


class OpenVinoRun:
    def __init__(self, runtime, threads, path, cases_file, work, device):
        import openvino
        core = openvino.Core()
        settings = {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"}
        model = core.compile_model(core.read_model(str(onnx_file(path, work))), "CPU", settings)
        given = {name: value.numpy() for name, value in read_inputs(cases_file).items()}
        self.inputs = {port.get_any_name(): given[port.get_any_name()] for port in model.inputs}
        self.request = model.create_infer_request()
        self.count = len(model.outputs)
        self.run()

    def run(self):
        self.request.infer(self.inputs, share_inputs=True)

    def outputs(self):
        import torch
        return [torch.from_numpy(self.request.get_output_tensor(index).data.copy()) for index in range(self.count)]


def make_run(runtime, threads, path, cases_file, work, device):
    kinds = {"onnxruntime": OnnxRuntimeRun, "onnxruntime_int8": OnnxRuntimeRun, "openvino": OpenVinoRun,
             "aoti": AotInductorRun}
    return kinds.get(runtime, TorchRun)(runtime, threads, path, cases_file, work, device)


def obey(words, loaded, arguments):
    if words[:1] == ["load"] and len(words) == 3:
        start = time.perf_counter()
        loaded = make_run(arguments.runtime, arguments.threads, Path(words[1]), Path(words[2]), arguments.work,
                          arguments.device)
        return {"load_seconds": time.perf_counter() - start, **getattr(loaded, "notes", {})}, loaded
    if words[:1] == ["run"] and len(words) == 2 and loaded is not None:
        times = []
        for _ in range(int(words[1])):
            start = time.perf_counter_ns()
            loaded.run()
            times.append((time.perf_counter_ns() - start) / 1e6)
        return {"times_ms": times}, loaded
    if words[:1] == ["outputs"] and len(words) == 2 and loaded is not None:
        from safetensors.torch import save_file
        outputs = loaded.outputs()
        save_file({str(index): tensor for index, tensor in enumerate(outputs)}, words[1])
        return {"outputs": len(outputs)}, loaded
    raise ValueError("expected: load FILE CASES_FILE, run N or outputs FILE (after load), or quit")


def serve(arguments):
    # Libraries print to standard output as they like; answers go to the real one alone.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    loaded = None
    for line in sys.stdin:
        words = line.split()
        if words[:1] == ["quit"]:
            break
        try:
            answer, loaded = obey(words, loaded, arguments)
        except Exception as error:  # the driver must get an answer, whatever went wrong
            text = " ".join(str(error).split())
            answer = {"error": f"{type(error).__name__}: {text[:300]}"}
        print(json.dumps(answer), file=answers, flush=True)
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runtime", choices=RUNTIMES, required=True)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--work", type=Path, default=Path("build/compare/onnx"))
    parser.add_argument("--device", default="cpu", help="where PyTorch runs: cpu or cuda")
    parser.add_argument("--first-answer", nargs=2, type=Path, metavar=("FILE", "CASES_FILE"))
    arguments = parser.parse_args()
    if arguments.first_answer is None:
        return serve(arguments)
    make_run(arguments.runtime, arguments.threads, *arguments.first_answer, arguments.work, arguments.device)  # runs once
    print(json.dumps({"answered": True}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
