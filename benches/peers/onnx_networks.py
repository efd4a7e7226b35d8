"""onnxruntime as a peer for forward passes in f32: KAN layers and the dual-pathway network, as
graphs of standard operators."""

import numpy as np
import torch

import dual_pathway
import formula
import onnx_file
import onnx_runtime
import worker

DEGREE = 3


class Network(onnx_file.Graph):
    """A graph with the layers of the networks."""

    def of(self, operator, *inputs, **values):
        """A node of names and of constants."""
        names = [each if isinstance(each, str) else self.constant(each) for each in inputs]
        return self.node(operator, names, **values)

    def conv(self, x, weights, stride):
        padding = weights.shape[-1] // 2
        return self.of("Conv", x, weights, strides=[stride] * 2, pads=[padding] * 4)

    def normalized(self, x, norm):
        parts = [norm.weight, norm.bias, norm.running_mean, norm.running_var]
        return self.of("BatchNormalization", x, *map(values, parts))

    def conv_norm(self, x, layer):
        convolved = self.conv(x, values(layer.conv.weight), layer.conv.stride[0])
        return self.normalized(convolved, layer.norm)

    def residual(self, x, block):
        hidden = self.of("Relu", self.conv_norm(x, block.first))
        shortcut = x if block.shortcut is None else self.conv_norm(x, block.shortcut)
        return self.of("Relu", self.of("Add", self.conv_norm(hidden, block.second), shortcut))

    def blended(self, blend, parts, nonlinear):
        weights = values(torch.softmax(blend.logits, 0))
        for part, weight in zip(parts, weights, strict=True):
            nonlinear = self.of("Add", nonlinear, self.of("Mul", part, np.float32(weight)))
        return nonlinear

    def gate(self, gate, color, brightness, stream):
        both = self.of("Concat", color, brightness, axis=1)
        nonlinear = self.conv_norm(self.of("Relu", self.conv_norm(both, gate.mix)), gate.project)
        parts = [color, brightness] + ([] if stream is None else [stream])
        return self.blended(gate.blend, parts, nonlinear)

    def pooled_gate(self, gate, color, brightness, stream):
        both = self.of("Concat", color, brightness, axis=1)
        mixed = self.normalized(self.linear(both, gate.mix), gate.norm)
        nonlinear = self.linear(self.of("Relu", mixed), gate.project)
        return self.blended(gate.blend, [color, brightness, stream], nonlinear)

    def linear(self, x, layer):
        bias = [] if layer.bias is None else [values(layer.bias)]
        return self.of("Gemm", x, values(layer.weight), *bias, transB=1)


def values(parameter):
    return parameter.detach().contiguous().numpy()


def dual_pathway_inference(problem):
    """The network of dual_pathway.py, node by node."""
    model, graph = dual_pathway.in_evaluation(problem["network"]), Network()
    luma = values(model.luma).reshape(1, 3, 1, 1)
    color = graph.of("Relu", graph.conv_norm("x", model.color_stem))
    brightness = graph.conv_norm(graph.conv("x", luma, 1), model.brightness_stem)
    brightness, stream = graph.of("Relu", brightness), None
    for stage in model.stages:
        for block in stage.color:
            color = graph.residual(color, block)
        for block in stage.brightness:
            brightness = graph.residual(brightness, block)
        if stage.carry is not None:
            stream = graph.conv_norm(graph.of("Relu", stream), stage.carry.project)
        stream = graph.gate(stage.gate, color, brightness, stream)
    pooled = [
        graph.of("Flatten", graph.of("GlobalAveragePool", each))
        for each in (color, brightness, stream)
    ]
    features = graph.pooled_gate(model.gate, *pooled)
    hidden = graph.of("Relu", graph.linear(features, model.classifier.hidden))
    y = graph.linear(hidden, model.classifier.output)
    side, batch = problem["network"]["side"], problem["batch"]
    images = formula.tensor("images", (batch, 3, side, side), 1.7)
    return graph, y, images, (batch, problem["network"]["classes"])


def kan_layer(problem):
    """Basis expansion and a matrix product, with the factors multiplied into the coefficients."""
    batch, inputs, outputs = problem["batch"], problem["inputs"], problem["outputs"]
    intervals, graph = problem["intervals"], Network()
    places = np.arange(-DEGREE, intervals + DEGREE + 1, dtype=np.float64)
    knots = (places * (2.0 / intervals) - 1.0).astype(np.float32)
    x = graph.of("Unsqueeze", "x", np.array([2], np.int64))
    inside = graph.of("GreaterOrEqual", x, knots[:-1]), graph.of("Less", x, knots[1:])
    bases = graph.of("Cast", graph.of("And", *inside), to=onnx_file.ELEMENTS["float32"])
    for p in range(1, DEGREE + 1):
        count = len(knots) - 1 - p
        first, second = (
            graph.of("Slice", bases, *(np.array([at], np.int64) for at in (start, start + count, 2)))
            for start in (0, 1)
        )
        rising, falling = knots[p:-1] - knots[: -(p + 1)], knots[p + 1 :] - knots[1:-p]
        rises = graph.of("Div", graph.of("Sub", x, knots[: -(p + 1)]), rising)
        falls = graph.of("Div", graph.of("Sub", knots[p + 1 :], x), falling)
        bases = graph.of("Add", graph.of("Mul", rises, first), graph.of("Mul", falls, second))
    scale = formula.weight_scale(inputs)
    spline = formula.tensor("spline", (inputs, intervals + DEGREE, outputs), scale)
    weights = spline * formula.tensor("scaler", (inputs, 1, outputs), 1.0)
    spline = graph.of("MatMul", graph.of("Flatten", bases), weights.reshape(-1, outputs))
    silu = graph.of("Mul", "x", graph.of("Sigmoid", "x"))
    base = graph.of("MatMul", silu, formula.tensor("base", (inputs, outputs), scale))
    y = graph.of("Add", spline, base)
    return graph, y, formula.tensor("x", (batch, inputs), 1.1), (batch, outputs)


KINDS = {"kan_layer": kan_layer, "dual_pathway_inference": dual_pathway_inference}


def prepare(problem, strategy, _folder, threads):
    is_tf32 = strategy.endswith("-tf32")
    worker.set_tf32(is_tf32)
    graph, y, x, shape = KINDS[problem["kind"]](problem)
    model = graph.finish(("x", "float32", x.shape), (y, "float32", shape))
    running = onnx_runtime.session(model, threads, is_tf32)
    once, output = onnx_runtime.computing(running, {"x": x})
    return once, lambda: {"y": output().astype(np.float64).ravel()}, onnx_runtime.about(threads)


if __name__ == "__main__":
    worker.serve(prepare)
