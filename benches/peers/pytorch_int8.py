"""PyTorch's own eight bits as a peer: quantized operators on packed weights, engine x86."""

import warnings

import torch
import torch.nn.functional as F

import int8
import worker

# These operators are deprecated, and still what PyTorch itself has for eight bits on the CPU.
warnings.filterwarnings("ignore", message=".*deprecated.*")


def product(problem, _folder):
    (input_scale, input_zero), (output_scale, output_zero) = int8.INPUT, int8.OUTPUT
    scales = torch.from_numpy(int8.weight_scales(problem)).double()
    weights = torch.from_numpy(int8.weights(problem)).float() * scales.float()[:, None]
    weights = torch.quantize_per_channel(
        weights, scales, torch.zeros(len(scales), dtype=torch.int64), 0, torch.qint8
    )
    packed = torch.ops.quantized.linear_prepack(weights, None)
    a = torch.from_numpy(int8.activations(problem))
    a = torch._make_per_tensor_quantized_tensor(a, input_scale, input_zero)

    def once():
        return torch.ops.quantized.linear_relu(a, packed, output_scale, output_zero)

    return once, lambda: {"y": once().int_repr().double().numpy().ravel()}


def quantized_weights(weights):
    scales = weights.flatten(1).abs().amax(1).double() / 127
    zeros = torch.zeros(len(scales), dtype=torch.int64)
    return torch.quantize_per_channel(weights, scales, zeros, 0, torch.qint8)


class Layer:
    """A convolution or a linear layer, in f32 to calibrate and then in eight bits."""

    def __init__(self, name, shape, rectified):
        weights, bias = (torch.from_numpy(value) for value in int8.layer(name, shape))
        self.float = (weights, bias)
        self.is_image, self.rectified = len(shape) == 4, rectified
        ops, packed = torch.ops.quantized, quantized_weights(weights)
        if self.is_image:
            self.packed = ops.conv2d_prepack(packed, bias, [1, 1], [1, 1], [1, 1], 1)
            self.run = ops.conv2d_relu if rectified else ops.conv2d
        else:
            self.packed = ops.linear_prepack(packed, bias)
            self.run = ops.linear_relu if rectified else ops.linear
        self.scheme = None

    def calibrate(self, x):
        weights, bias = self.float
        y = F.conv2d(x, weights, bias, padding=1) if self.is_image else F.linear(x, weights, bias)
        y = torch.relu(y) if self.rectified else y
        # Answers, which others give in f32, have room beyond those of the calibration.
        self.scheme = int8.scheme(y if self.rectified or self.is_image else 1.5 * y)
        return y

    def __call__(self, x):
        return self.run(x, self.packed, *self.scheme)


class Perceptron:
    def __init__(self, shape):
        self.layers = [Layer(n, size, n != "answers") for n, size in int8.perceptron(shape)]

    def calibrate(self, x):
        x = x.flatten(1)
        for layer in self.layers:
            x = layer.calibrate(x)

    def __call__(self, x):
        x = x.flatten(1)
        for layer in self.layers:
            x = layer(x)
        return x


class Residual:
    def __init__(self, shape):
        channels = shape["channels"]
        self.stem = Layer("stem", (channels, 3, 3, 3), True)
        square = (channels, channels, 3, 3)
        self.blocks = [
            (Layer(f"{block}.first", square, True), Layer(f"{block}.second", square, False))
            for block in range(4)
        ]
        self.sums = []
        self.answers = Layer("answers", (10, channels), False)

    def calibrate(self, x):
        x = self.stem.calibrate(x)
        for first, second in self.blocks:
            x = torch.relu(x + second.calibrate(first.calibrate(x)))
            self.sums.append(int8.scheme(x))
        self.answers.calibrate(x.mean((2, 3)))

    def __call__(self, x):
        x = self.stem(x)
        for (first, second), (scale, zero) in zip(self.blocks, self.sums):
            x = torch.ops.quantized.add_relu(x, second(first(x)), scale, zero)
        return self.answers(x.mean((2, 3)))


def network(problem, _folder):
    shape = problem["shape"]
    model = {"residual": Residual, "perceptron": Perceptron}[shape["network"]](shape)
    seen = torch.from_numpy(int8.samples(problem, "calibration", int8.CALIBRATION))
    input_scheme = int8.scheme(seen)
    model.calibrate(seen)
    x = torch.from_numpy(int8.samples(problem, "x", problem["batch"]))
    x = x.contiguous(memory_format=torch.channels_last)

    def once():
        return model(torch.quantize_per_tensor(x, *input_scheme, torch.quint8)).dequantize()

    return once, lambda: {"answer": once().double().numpy().ravel()}


KINDS = {"int8_product": product, "int8_network": network}


def prepare(problem, _strategy, folder, threads):
    torch.set_num_threads(threads)
    torch.backends.quantized.engine = "x86"
    with torch.no_grad():
        once, outputs = KINDS[problem["kind"]](problem, folder)
    about = f"PyTorch {torch.__version__}, engine x86, {threads} threads"
    return without_graph(once), without_graph(outputs), about


def without_graph(function):
    def inside():
        with torch.no_grad():
            return function()

    return inside


if __name__ == "__main__":
    worker.serve(prepare)
