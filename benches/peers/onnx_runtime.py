"""onnxruntime as a peer: products of bytes as one operator, networks as our own file."""

import os
import sys

import numpy as np

import formula
import int8
import onnx_file
import worker

if worker.device() == "cuda":
    # Beside the environment's packages, which have onnxruntime for processors.
    sys.path.insert(0, os.path.join(sys.prefix, "onnxruntime-gpu"))

import onnxruntime

CPU, CUDA = "CPUExecutionProvider", "CUDAExecutionProvider"


def session(model, threads, is_tf32=True):
    """A model on the processor, or on PyTorch's card of NVIDIA; there products and convolutions are
    of TF32, unless f32 is asked for."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    # With one thread, others that spin would be on the clock.
    options.add_session_config_entry("session.intra_op.allow_spinning", str(int(threads > 1)))
    if worker.device() != "cuda":
        return onnxruntime.InferenceSession(model, options, providers=[CPU])
    # PyTorch has loaded the libraries of CUDA.
    if CUDA not in onnxruntime.get_available_providers():
        advice = "`pip install onnxruntime-gpu` has it, for cards of NVIDIA"
        raise ValueError(f"no CUDA provider; {advice}")
    settings = {"use_tf32": str(int(is_tf32))}
    running = onnxruntime.InferenceSession(model, options, providers=[(CUDA, settings), CPU])
    if running.get_providers()[0] != CUDA:
        raise ValueError("the CUDA provider does not load: it may need another version of CUDA")
    return running


def computing(running, feed):
    """What computes once, and what returns the output: on a card, inputs and outputs stay there."""
    if running.get_providers()[0] != CUDA:

        def once():
            return running.run(None, feed)[0]

        return once, once
    binding = running.io_binding()
    for name, value in feed.items():
        placed = onnxruntime.OrtValue.ortvalue_from_numpy(value, "cuda", 0)
        binding.bind_ortvalue_input(name, placed)
    for output in running.get_outputs():
        binding.bind_output(output.name, "cuda")

    def bound():
        running.run_with_iobinding(binding)
        binding.synchronize_outputs()

    def output():
        bound()
        return binding.copy_outputs_to_cpu()[0]

    return bound, output


def about(threads):
    place = f"CUDA provider, {worker.place(threads)}" if worker.device() == "cuda" else None
    return f"onnxruntime {onnxruntime.__version__}, {place or f'{threads} threads'}"


def product(problem, threads, _folder):
    a, b, scales = int8.activations(problem), int8.weights(problem), int8.weight_scales(problem)
    (input_scale, input_zero), (output_scale, output_zero) = int8.INPUT, int8.OUTPUT
    b = np.ascontiguousarray(b.T)
    graph = onnx_file.Graph()
    zero = graph.constant(np.uint8(input_zero))
    if problem["tail"] == "sums":
        y = graph.node("MatMulInteger", ["x", graph.constant(b), zero])
    else:
        of_weights = [b, scales, np.zeros(len(scales), np.int8)]
        of_output = [np.float32(output_scale), np.uint8(output_zero)]
        scale = graph.constant(np.float32(input_scale))
        rest = [graph.constant(value) for value in of_weights + of_output]
        y = graph.node("QLinearMatMul", ["x", scale, zero, *rest])
    dtype = {"sums": "int32", "codes": "uint8"}[problem["tail"]]
    shape = (problem["rows"], problem["columns"])
    model = graph.finish(("x", "uint8", a.shape), (y, dtype, shape))
    running = session(model, threads)
    feed = {"x": a}

    def once():
        return running.run(None, feed)[0]

    return once, lambda: {"y": once().astype(np.float64).ravel()}


def perceptron(problem):
    """Each value between layers quantized and taken back right where a product reads it.

    onnxruntime takes our own file of this network for one in f32: this is the one that it is fast
    on.
    """
    graph, name = onnx_file.Graph(), "image"
    seen = int8.samples(problem, "calibration", int8.CALIBRATION).reshape(int8.CALIBRATION, -1)
    scheme = int8.scheme(seen)
    name = graph.node("Flatten", [name], axis=1)
    for layer, shape in int8.perceptron(problem["shape"]):
        weights, bias = int8.layer(layer, shape)
        given = [graph.constant(np.float32(scheme[0])), graph.constant(np.uint8(scheme[1]))]
        codes = graph.node("QuantizeLinear", [name, *given])
        x = graph.node("DequantizeLinear", [codes, *given])
        scales = np.abs(weights).max(1) / np.float32(127)
        zeros = np.zeros(len(scales), np.int32)
        of_bias = scales * np.float32(scheme[0])
        w, b = (
            graph.node("DequantizeLinear", [graph.constant(value) for value in parts], axis=0)
            for parts in (
                (np.rint(weights / scales[:, None]).astype(np.int8), scales, zeros.astype(np.int8)),
                (np.rint(bias / of_bias).astype(np.int32), of_bias, zeros),
            )
        )
        name = graph.node("Gemm", [x, w, b], transB=1)
        seen = seen @ weights.T + bias
        if layer != "answers":
            name, seen = graph.node("Relu", [name]), np.maximum(seen, 0)
            scheme = int8.scheme(seen)
    shape = (problem["batch"], problem["shape"]["inputs"], 1, 1)
    return graph.finish(("image", "float32", shape), (name, "float32", (problem["batch"], 10)))


def network(problem, threads, folder):
    if problem["shape"]["network"] == "perceptron":
        model = perceptron(problem)
    else:
        model = os.path.join(folder, "model.onnx")
    running = session(model, threads)
    feed = {"image": int8.samples(problem, "x", problem["batch"])}

    def once():
        return running.run(None, feed)[0]

    return once, lambda: {"answer": once().astype(np.float64).ravel()}


def of_file(images, threads, folder):
    """Our own file, on a batch of images."""
    running = session(os.path.join(folder, "model.onnx"), threads)
    once, output = computing(running, {running.get_inputs()[0].name: images})
    return once, lambda: {"answer": output().astype(np.float64).ravel()}


def deep(problem, threads, folder):
    shape = (problem["batch"], 3, problem["side"], problem["side"])
    return of_file(formula.tensor("x", shape, 1.0), threads, folder)


def dual_pathway(problem, threads, folder):
    side = problem["network"]["side"]
    images = formula.tensor("images", (problem["batch"], 3, side, side), 1.7)
    return of_file(images, threads, folder)


KINDS = {
    "int8_product": product,
    "int8_network": network,
    "int8_deep": deep,
    "int8_dual_pathway": dual_pathway,
}


def prepare(problem, _strategy, folder, threads):
    once, outputs = KINDS[problem["kind"]](problem, threads, folder)
    return once, outputs, about(threads)


if __name__ == "__main__":
    worker.serve(prepare)
